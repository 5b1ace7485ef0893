/* As reproducible_info, with MPI_THREAD_MULTIPLE: what a thread remembers of a communicator, and the schedules of calls that it has made before, are
 * those of before MPI_Comm_set_info, and must not be used afterwards.
 *
 * Covers: 6.9.1, 7.4.4
 * Ranks: 3 5
 * Timeout: 60
 */
#include "reproducible.h"

int main(int argc, char **argv)
{
    static double in[LONG], out[LONG];
    static const int counts[] = {1, 3, 700, LONG};
    int provided;
    MPI_Comm comm;
    MPI_Info info;
    MPI_Request request;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int c = 0; c < 4; c++) {
        CHECK_OK(MPI_Iallreduce(in, out, counts[c], MPI_DOUBLE, MPI_SUM, comm, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "weft_reproducible", "true"));
    CHECK_OK(MPI_Comm_set_info(comm, info));
    CHECK_OK(MPI_Info_free(&info));
    check_on(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
