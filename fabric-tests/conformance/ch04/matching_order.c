/* Init calls match by communicator, tag and source in their order, whatever the order of the starts, and never with
 * ordinary or persistent messages.
 *
 * Covers: 4.2.1, 4.2.3
 * Ranks: 2
 */
#include "check.h"

#define N 4

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = 1 - check_rank, values[N], got[N], plain = 77, plain_got = -1;
    MPI_Request requests[N], extra[2];
    MPI_Comm other;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    if (check_rank == 0) {
        /* Ordinary and persistent sends of the same envelope come first. */
        CHECK_OK(MPI_Isend(&plain, 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &extra[0]));
        CHECK_OK(MPI_Send_init(&plain, 1, MPI_INT, peer, 9, MPI_COMM_WORLD, &extra[1]));
        CHECK_OK(MPI_Start(&extra[1]));
        for (int i = 0; i < N; i++) {
            values[i] = 1000 + i;
            CHECK_OK(MPI_Psend_init(&values[i], 1, 1, MPI_INT, peer, i == 3 ? 8 : 9, i == 2 ? other : MPI_COMM_WORLD,
                                    MPI_INFO_NULL, &requests[i]));
        }
        for (int i = N - 1; i >= 0; i--) {
            CHECK_OK(MPI_Start(&requests[i]));
            CHECK_OK(MPI_Pready(0, requests[i]));
        }
        CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
        CHECK_OK(MPI_Waitall(2, extra, MPI_STATUSES_IGNORE));
        CHECK_OK(MPI_Request_free(&extra[1]));
    } else {
        /* In another order, as far as the envelopes differ: requests[k] receives from the k-th send. */
        static const int order[N] = {3, 2, 0, 1};
        for (int i = 0; i < N; i++) {
            int k = order[i];
            got[k] = -1;
            CHECK_OK(MPI_Precv_init(&got[k], 1, 1, MPI_INT, peer, k == 3 ? 8 : 9, k == 2 ? other : MPI_COMM_WORLD,
                                    MPI_INFO_NULL, &requests[k]));
        }
        CHECK_OK(MPI_Startall(N, requests));
        for (int i = 0; i < 2; i++) {
            CHECK_OK(MPI_Recv(&plain_got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_INT(plain_got, 77);
        }
        CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
        for (int k = 0; k < N; k++) CHECK_INT(got[k], 1000 + k);
        int flag = 1;
        CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
    }
    for (int i = 0; i < N; i++) CHECK_OK(MPI_Request_free(&requests[i]));
    CHECK_OK(MPI_Comm_free(&other));
    return check_end();
}
