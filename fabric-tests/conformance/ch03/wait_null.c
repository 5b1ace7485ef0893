/* Waiting for and testing null requests: at once, flag true, empty statuses, MPI_UNDEFINED where there is nothing active.
 *
 * Covers: 3.7.3, 3.7.5, 3.7.6, 3.2.6
 * Ranks: 1 2
 */
#include "check.h"

#define N 5

/* With its error field, which this status has by its definition. */
#define CHECK_ALL_EMPTY(status)                    \
    do {                                           \
        CHECK_EMPTY(status);                       \
        CHECK_INT((status).MPI_ERROR, MPI_SUCCESS); \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Request requests[N];
    MPI_Status statuses[N], status;
    int flag, index, outcount, indices[N];
    for (int i = 0; i < N; i++) requests[i] = MPI_REQUEST_NULL;

    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Wait(&requests[0], &status));
    CHECK_ALL_EMPTY(status);
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    flag = 0;
    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Test(&requests[0], &flag, &status));
    CHECK(flag);
    CHECK_ALL_EMPTY(status);
    flag = 0;
    CHECK_OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    CHECK(flag);
    flag = 0;
    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Request_get_status(requests[0], &flag, &status));
    CHECK(flag);
    CHECK_ALL_EMPTY(status);
    index = 7, flag = 0;
    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Request_get_status_any(N, requests, &index, &flag, &status));
    CHECK(flag);
    CHECK_INT(index, MPI_UNDEFINED);
    CHECK_ALL_EMPTY(status);
    flag = 0;
    memset(statuses, 0x5A, sizeof statuses);
    CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
    CHECK(flag);
    for (int i = 0; i < N; i++) CHECK_ALL_EMPTY(statuses[i]);
    outcount = 7;
    CHECK_OK(MPI_Request_get_status_some(N, requests, &outcount, indices, statuses));
    CHECK_INT(outcount, MPI_UNDEFINED);

    for (int n = 0; n <= N; n++) {
        index = 7;
        memset(&status, 0x5A, sizeof status);
        CHECK_OK(MPI_Waitany(n, requests, &index, &status));
        CHECK_INT(index, MPI_UNDEFINED);
        CHECK_ALL_EMPTY(status);
        CHECK_OK(MPI_Waitany(n, requests, &index, MPI_STATUS_IGNORE));
        index = 7, flag = 0;
        memset(&status, 0x5A, sizeof status);
        CHECK_OK(MPI_Testany(n, requests, &index, &flag, &status));
        CHECK(flag);
        CHECK_INT(index, MPI_UNDEFINED);
        CHECK_ALL_EMPTY(status);
        CHECK_OK(MPI_Testany(n, requests, &index, &flag, MPI_STATUS_IGNORE));

        memset(statuses, 0x5A, sizeof statuses);
        CHECK_OK(MPI_Waitall(n, requests, statuses));
        for (int i = 0; i < n; i++) CHECK_ALL_EMPTY(statuses[i]);
        CHECK_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
        flag = 0;
        memset(statuses, 0x5A, sizeof statuses);
        CHECK_OK(MPI_Testall(n, requests, &flag, statuses));
        CHECK(flag);
        for (int i = 0; i < n; i++) CHECK_ALL_EMPTY(statuses[i]);
        CHECK_OK(MPI_Testall(n, requests, &flag, MPI_STATUSES_IGNORE));

        outcount = 7;
        CHECK_OK(MPI_Waitsome(n, requests, &outcount, indices, statuses));
        CHECK_INT(outcount, MPI_UNDEFINED);
        CHECK_OK(MPI_Waitsome(n, requests, &outcount, indices, MPI_STATUSES_IGNORE));
        outcount = 7;
        CHECK_OK(MPI_Testsome(n, requests, &outcount, indices, statuses));
        CHECK_INT(outcount, MPI_UNDEFINED);
        CHECK_OK(MPI_Testsome(n, requests, &outcount, indices, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; i < N; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
    return check_end();
}
