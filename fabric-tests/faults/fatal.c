/* One mistake of the kind named by the argument, on the last rank, under the default error handler. */
#include "../conformance/check.h"

int main(int argc, char **argv)
{
    const char *mistake = argc > 1 ? argv[1] : "";
    int value = 0, other = 0;
    static int numbers[100];
#define IS(name) (strcmp(mistake, name) == 0)
    if (IS("before_init")) MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (IS("rank_before_init")) MPI_Comm_rank(MPI_COMM_WORLD, &value);
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (rank == size - 1) {
        MPI_Comm comm;
        MPI_Request request = MPI_REQUEST_NULL;
        if (IS("rank")) MPI_Send(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
        if (IS("tag")) MPI_Send(&value, 1, MPI_INT, 0, -77, MPI_COMM_WORLD);
        if (IS("count")) MPI_Send(&value, -77, MPI_INT, 0, 0, MPI_COMM_WORLD);
        if (IS("datatype")) MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD);
        if (IS("comm")) MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL);
        if (IS("buffer")) MPI_Send(NULL, 3, MPI_INT, 0, 0, MPI_COMM_WORLD);
        if (IS("root")) MPI_Bcast(&value, 1, MPI_INT, 77, MPI_COMM_WORLD);
        if (IS("op")) MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD);
        if (IS("request")) MPI_Request_free(&request);
        if (IS("double_init")) MPI_Init(&argc, &argv);
        if (IS("truncate")) {
            MPI_Isend(numbers, 100, MPI_INT, rank, 5, MPI_COMM_WORLD, &request);
            MPI_Recv(&value, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (IS("freed_comm")) {
            MPI_Comm_dup(MPI_COMM_SELF, &comm);
            MPI_Comm stale = comm;
            MPI_Comm_free(&comm);
            MPI_Barrier(stale);
        }
    } else if (!IS("after_finalize"))
        MPI_Recv(&value, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (IS("after_finalize")) {
        MPI_Finalize();
        MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    printf("survived\n");
    return 0;
}
