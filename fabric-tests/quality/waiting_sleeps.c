/* Ranks that wait do not burn the cores when there are more of them than cores: blocked for a second, each uses a small part
 * of it.
 *
 * Covers: 2.9
 * Ranks: 8
 */
#include "check.h"
#include <sys/resource.h>

static double used(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + 1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int how = 0; how < 4; how++) {
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        double before = used();
        int value = 0, index;
        MPI_Request requests[2];
        if (check_rank == 0) {
            usleep(1000000);
            for (int r = 1; r < check_size && how < 3; r++) CHECK_OK(MPI_Send(&value, 1, MPI_INT, r, how, MPI_COMM_WORLD));
        } else if (how == 0)
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        else if (how == 1) {
            CHECK_OK(MPI_Probe(0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else if (how == 2) {
            CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, 0, how, MPI_COMM_WORLD, &requests[0]));
            CHECK_OK(MPI_Irecv(&value, 0, MPI_INT, 0, 77, MPI_COMM_WORLD, &requests[1]));
            CHECK_OK(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Cancel(&requests[1]));
            CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        double spent = used() - before;
        if (spent > 0.2) CHECK_FAIL("way of waiting %d: %.3f s of processor time for 1 s of waiting", how, spent);
    }
    return check_end();
}
