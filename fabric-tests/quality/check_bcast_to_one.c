/* WEFT_CHECK=collectives: broadcasts to one other whose lengths differ so much that one member would wait for a message and the other
 * for a flag in shared memory are told of like all others, whoever gives more.
 *
 * Covers: 6.4, 6.14
 * Ranks: 2
 * Env: WEFT_CHECK=collectives
 * Timeout: 60
 */
#include "check.h"
#include "told.h"

int main(int argc, char **argv)
{
    static int buffer[300000];
    check_start(&argc, &argv);
    int odd = check_rank == 1;
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Barrier(comm));
    for (int root = 0; root < 2; root++) {
        TOLD(MPI_Bcast(buffer, odd ? 3000 : 40000, MPI_INT, root, comm), MPI_ERR_COUNT, "40000 x MPI_INT (160000 bytes) at rank 0, but 3000 x MPI_INT (12000 bytes) at rank 1");
        TOLD(MPI_Bcast(buffer, odd ? 40000 : 3000, MPI_INT, root, comm), MPI_ERR_COUNT, "3000 x MPI_INT (12000 bytes) at rank 0, but 40000 x MPI_INT (160000 bytes) at rank 1");
        TOLD(MPI_Bcast(buffer, odd ? 300000 : 40000, MPI_INT, root, comm), MPI_ERR_COUNT, "(160000 bytes) at rank 0, but 300000 x MPI_INT (1200000 bytes) at rank 1");
        CHECK_OK(MPI_Bcast(buffer, 40000, MPI_INT, root, comm));
    }
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
