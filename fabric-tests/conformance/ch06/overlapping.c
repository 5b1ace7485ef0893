/* Collectives of overlapping communicators at the same time (example 6.36), nonblocking and persistent: no order of blocking calls would do.
 * A barrier under way while a message is sent and received (examples 6.34, 6.35); more collectives on one communicator than
 * any counter of few bits tells apart, with a persistent one alive all the time.
 *
 * Covers: 6.12, 6.13, 6.14
 * Ranks: 3
 * Timeout: 120
 */
#include "check.h"

enum { TURNS = 140000 };

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank;
    /* comm[i] has the ranks i and i + 1 (mod 3). */
    MPI_Comm comm[3];
    for (int i = 0; i < 3; i++) {
        int in = me == i || me == (i + 1) % 3;
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, in ? 0 : MPI_UNDEFINED, me, &comm[i]));
    }
    MPI_Request requests[3];
    int mine[3], sums[3];
    for (int round = 0; round < 100; round++) {
        int k = 0;
        /* Each process begins with another one. */
        for (int turn = 0; turn < 3; turn++) {
            int i = (turn + me + round) % 3;
            mine[i] = 10 * round + me, sums[i] = -1;
            if (comm[i] != MPI_COMM_NULL) CHECK_OK(MPI_Iallreduce(&mine[i], &sums[i], 1, MPI_INT, MPI_SUM, comm[i], &requests[k++]));
        }
        CHECK_INT(k, 2);
        CHECK_OK(MPI_Waitall(k, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 3; i++)
            if (comm[i] != MPI_COMM_NULL) CHECK_INT(sums[i], 20 * round + i + (i + 1) % 3);
    }
    MPI_Request kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = MPI_REQUEST_NULL;
        if (comm[i] != MPI_COMM_NULL) CHECK_OK(MPI_Allreduce_init(&mine[i], &sums[i], 1, MPI_INT, MPI_SUM, comm[i], MPI_INFO_NULL, &kept[i]));
    }
    for (int round = 0; round < 100; round++) {
        for (int turn = 0; turn < 3; turn++) {
            int i = (turn + me + round) % 3;
            mine[i] = 10 * round + me, sums[i] = -1;
            if (comm[i] != MPI_COMM_NULL) CHECK_OK(MPI_Start(&kept[i]));
        }
        CHECK_OK(MPI_Waitall(3, kept, MPI_STATUSES_IGNORE));
        for (int i = 0; i < 3; i++)
            if (comm[i] != MPI_COMM_NULL) CHECK_INT(sums[i], 20 * round + i + (i + 1) % 3);
    }

    /* A barrier and messages in one Waitall. */
    int sent = me, got = -1;
    CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, (me + 1) % 3, 0, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Isend(&sent, 1, MPI_INT, (me + 2) % 3, 0, MPI_COMM_WORLD, &requests[2]));
    CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK_INT(got, (me + 1) % 3);

    /* Very many in turn on the communicator of ranks 0 and 1; rank 1 lags behind as far as it can. */
    if (comm[0] != MPI_COMM_NULL) {
        int value;
        for (int turn = 0; turn < TURNS; turn++) {
            value = me == 0 ? turn : -1;
            CHECK_OK(MPI_Ibcast(&value, 1, MPI_INT, 0, comm[0], &requests[0]));
            CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            CHECK_INT(value, turn);
        }
        mine[0] = me, sums[0] = -1;
        CHECK_OK(MPI_Start(&kept[0]));
        CHECK_OK(MPI_Wait(&kept[0], MPI_STATUS_IGNORE));
        CHECK_INT(sums[0], 1);
    }
    for (int i = 0; i < 3; i++) {
        if (comm[i] == MPI_COMM_NULL) continue;
        CHECK_OK(MPI_Request_free(&kept[i]));
        CHECK_OK(MPI_Comm_free(&comm[i]));
    }
    return check_end();
}
