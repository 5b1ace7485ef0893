/* Duplicates: congruent, with traffic of their own, with the parent's error handler, made while messages are pending on
 * the parent, and received from before the receiver has made its own.
 *
 * Covers: 7.4.1, 7.4.2, 7.2.2, 9.3.1
 * Ranks: 1 2 3 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, next = (me + 1) % n, before = (me + n - 1) % n, result, size, rank;
    MPI_Comm twin, again;
    CHECK_OK(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result));
    CHECK_INT(result, MPI_IDENT);
    CHECK_OK(MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_SELF, &result));
    CHECK_INT(result, n == 1 ? MPI_CONGRUENT : MPI_UNEQUAL);

    int pending = -1, out = 10 + me;
    MPI_Request requests[2];
    MPI_Status status;
    CHECK_OK(MPI_Irecv(&pending, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_OK(MPI_Comm_dup(twin, &again));
    CHECK_OK(MPI_Comm_compare(MPI_COMM_WORLD, twin, &result));
    CHECK_INT(result, MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_compare(again, twin, &result));
    CHECK_INT(result, MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_size(again, &size));
    CHECK_OK(MPI_Comm_rank(again, &rank));
    CHECK_INT(size, n);
    CHECK_INT(rank, me);
    MPI_Errhandler handler;
    CHECK_OK(MPI_Comm_get_errhandler(again, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Send(&out, 1, MPI_INT, n, 0, again), MPI_ERR_RANK);

    /* The same source, tag and size on three communicators: each receive gets its own. */
    MPI_Comm comms[3] = {again, twin, MPI_COMM_WORLD};
    MPI_Request sends[3];
    int messages[3], got;
    for (int c = 0; c < 3; c++) {
        messages[c] = 100 * c + me;
        CHECK_OK(MPI_Isend(&messages[c], 1, MPI_INT, next, 5, comms[c], &sends[c]));
    }
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, twin, &status));
    CHECK_INT(got, 100 + before);
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, before, 5, again, &status));
    CHECK_INT(got, before);
    CHECK_OK(MPI_Wait(&requests[0], &status));
    CHECK_INT(pending, 200 + before);
    CHECK_STATUS(status, before, 5, MPI_INT, 1);
    CHECK_OK(MPI_Waitall(3, sends, MPI_STATUSES_IGNORE));

    /* Freed with a receive pending on it: the handle is null, the communication completes. */
    int late = -1;
    CHECK_OK(MPI_Irecv(&late, 1, MPI_INT, before, 6, again, &requests[0]));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Isend(&out, 1, MPI_INT, next, 6, again, &requests[1]));
    CHECK_OK(MPI_Comm_free(&again));
    CHECK(again == MPI_COMM_NULL);
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_INT(late, 10 + before);
    CHECK_OK(MPI_Comm_free(&twin));

    /* Some ranks use their new communicator at once, while others are still on the way out of making it. */
    for (int round = 0; round < 60; round++) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
        if (round % n != me) {
            CHECK_OK(MPI_Send(&round, 1, MPI_INT, round % n, 1, twin));
        } else {
            if (round % 10 == 0) usleep(3000);
            for (int k = 1; k < n; k++) {
                CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, twin, &status));
                CHECK_INT(got, round);
            }
        }
        CHECK_OK(MPI_Comm_free(&twin));
    }
    return check_end();
}
