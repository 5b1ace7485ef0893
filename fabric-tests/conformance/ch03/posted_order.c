/* Of several posted receives that match a message, the first posted takes it, whatever wildcards they have.
 *
 * Covers: 3.5, 3.7.4
 * Ranks: 2 3
 */
#include "check.h"

#define N 12

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    /* Every mixture of the four kinds of receive in six places, all of which match the messages. */
    for (int mixture = 0; mixture < 4096; mixture += 37) {
        int last = check_size - 1, values[6];
        if (check_rank == last) {
            MPI_Request requests[6];
            for (int i = 0, code = mixture; i < 6; i++, code /= 4) {
                values[i] = -1;
                CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, code & 1 ? MPI_ANY_SOURCE : 0, code & 2 ? MPI_ANY_TAG : 5,
                                   MPI_COMM_WORLD, &requests[i]));
            }
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD));
            CHECK_OK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < 6; i++) CHECK_INT(values[i], i);
        } else if (check_rank == 0) {
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, last, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int i = 0; i < 6; i++) CHECK_OK(MPI_Send(&i, 1, MPI_INT, last, 5, MPI_COMM_WORLD));
        }
    }
    /* Receives that match only some: each message goes to the first that fits. */
    int last = check_size - 1;
    if (check_rank == last) {
        static const int tags[N] = {1, MPI_ANY_TAG, 2, 1, MPI_ANY_TAG, 3, 2, MPI_ANY_TAG, 1, 3, MPI_ANY_TAG, 2};
        int values[N];
        MPI_Request requests[N];
        MPI_Status statuses[N];
        for (int i = 0; i < N; i++)
            CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, i % 2 ? MPI_ANY_SOURCE : 0, tags[i], MPI_COMM_WORLD, &requests[i]));
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 6, MPI_COMM_WORLD));
        CHECK_OK(MPI_Waitall(N, requests, statuses));
        /* The sender replays the rule on its own list and says which place each message must take. */
        for (int i = 0; i < N; i++) CHECK_INT(values[i], i);
    } else if (check_rank == 0) {
        static const int tags[N] = {1, MPI_ANY_TAG, 2, 1, MPI_ANY_TAG, 3, 2, MPI_ANY_TAG, 1, 3, MPI_ANY_TAG, 2};
        static const int send[] = {3, 2, 1, 1, 2, 2, 3, 1, 2, 3, 1, 2, 1, 3, 2, 1, 2, 3};
        int taken[N] = {0};
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, last, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (unsigned k = 0; k < sizeof send / sizeof *send; k++)
            for (int i = 0; i < N; i++)
                if (!taken[i] && (tags[i] == send[k] || tags[i] == MPI_ANY_TAG)) {
                    taken[i] = 1;
                    CHECK_OK(MPI_Send(&i, 1, MPI_INT, last, send[k], MPI_COMM_WORLD));
                    break;
                }
        for (int i = 0; i < N; i++) CHECK(taken[i]);
    }
    return check_end();
}
