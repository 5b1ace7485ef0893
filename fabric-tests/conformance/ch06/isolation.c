/* Collectives and point-to-point messages on one communicator do not see each other: wildcard receives are pending,
 * unexpected messages wait, while collectives run.
 *
 * Covers: 6.1, 6.14, 2.9
 * Ranks: 2 3 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, next = (me + 1) % n, before = (me + n - 1) % n;
    for (int round = 0; round < 100; round++) {
        int caught = -1, early = -1, out = 1000 * me + round, sum = 0, all[16], flag;
        MPI_Request receive, send;
        MPI_Status status;
        /* An unexpected message first, then a wildcard receive that must take it and nothing of the collectives. */
        CHECK_OK(MPI_Isend(&out, 1, MPI_INT, next, round, MPI_COMM_WORLD, &send));
        if (round % 2) CHECK_OK(MPI_Irecv(&caught, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive));
        CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_INT(sum, n * (n - 1) / 2);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK_OK(MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
        for (int r = 0; r < n; r++) CHECK_INT(all[r], r);
        CHECK_OK(MPI_Bcast(&early, 1, MPI_INT, round % n, MPI_COMM_WORLD));
        if (!(round % 2)) CHECK_OK(MPI_Irecv(&caught, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &receive));
        CHECK_OK(MPI_Wait(&receive, &status));
        CHECK_STATUS(status, before, round, MPI_INT, 1);
        CHECK_INT(caught, 1000 * before + round);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK_INT(flag, 0);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return check_end();
}
