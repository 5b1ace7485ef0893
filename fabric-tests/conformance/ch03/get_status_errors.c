/* Errors of requests that are only looked at: MPI_Request_get_status_some and _all tell them as MPI_Waitsome does, by
 * MPI_ERR_IN_STATUS and in each status; the calls that complete the requests afterwards tell them again. A query function that fails
 * keeps no other status from being written.
 *
 * Covers: 3.7.5, 3.7.6, 13.2
 * Ranks: 1 2
 * [MPICH 4.3 has MPI_SUCCESS in statuses of generalized requests that are looked at.]
 */
#include "check.h"

enum { N = 5 };

static int query(void *extra, MPI_Status *status)
{
    CHECK_OK(MPI_Status_set_elements(status, MPI_INT, 3));
    CHECK_OK(MPI_Status_set_cancelled(status, 0));
    return *(int *)extra;
}

static int release(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

#if MPI_41
/* `wanted` is the error class of each request; those that are null or have been completed have MPI_SUCCESS. */
static void look(MPI_Request *requests, const int *wanted, int active, int own)
{
    MPI_Status statuses[N];
    int flag, count, indices[N], peer = check_size - 1 - check_rank;
    for (int ignore = 0; ignore < 2; ignore++)
        for (int all = 0; all < 2; all++) {
            MPI_Status *where = ignore ? MPI_STATUSES_IGNORE : statuses;
            for (int i = 0; i < N; i++) statuses[i].MPI_ERROR = -1;
            int code = all ? MPI_Request_get_status_all(N, requests, &flag, where)
                           : MPI_Request_get_status_some(N, requests, &count, indices, where);
            CHECK_INT(check_class_of(code), MPI_ERR_IN_STATUS);
            if (all) {
                CHECK(flag);
                count = N;
            } else
                CHECK_INT(count, active);
            for (int i = 0; i < count && !ignore; i++) {
                int which = all ? i : indices[i], elements = -1;
                CHECK_INT(check_class_of(statuses[i].MPI_ERROR), wanted[which]);
                if (which == 4) {
                    CHECK_EMPTY(statuses[i]);
                    continue;
                }
                if (which == own) {
                    CHECK_OK(MPI_Get_elements(&statuses[i], MPI_INT, &elements));
                    CHECK_INT(elements, 3);
                    continue;
                }
                CHECK_INT(statuses[i].MPI_SOURCE, peer);
                CHECK_INT(statuses[i].MPI_TAG, which);
                if (wanted[which] == MPI_SUCCESS) CHECK_STATUS(statuses[i], peer, which, MPI_INT, 1);
            }
        }
}
#endif

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
#if MPI_41
    int peer = check_size - 1 - check_rank, two[2] = {5, 6}, got[N], code;
    for (int failing = 0; failing < 3; failing++) {
        int of_query = failing == 0 ? MPI_SUCCESS : MPI_ERR_OTHER, long_one = failing == 1 ? -1 : 1;
        int wanted[N] = {MPI_SUCCESS, long_one == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS, of_query, MPI_SUCCESS, MPI_SUCCESS};
        MPI_Request requests[N], sends[N];
        MPI_Status statuses[N];
        /* The receive that fails, and the generalized request, come before one that goes well. */
        for (int i = 0; i < 4; i++)
            if (i != 2) CHECK_OK(MPI_Irecv(&got[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[i]));
        requests[4] = MPI_REQUEST_NULL;
        CHECK_OK(MPI_Grequest_start(query, release, cancel, &of_query, &requests[2]));
        CHECK_OK(MPI_Grequest_complete(requests[2]));
        for (int i = 0; i < 4; i++)
            if (i != 2) CHECK_OK(MPI_Isend(two, i == long_one ? 2 : 1, MPI_INT, peer, i, MPI_COMM_WORLD, &sends[i]));
        sends[2] = MPI_REQUEST_NULL;
        /* Until all are done. */
        for (int flag = 0; !flag;) (void)MPI_Request_get_status_all(N, requests, &flag, MPI_STATUSES_IGNORE);
        look(requests, wanted, 4, 2);
        look(requests, wanted, 4, 2);
        CHECK_OK(MPI_Waitall(4, sends, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) CHECK((requests[i] == MPI_REQUEST_NULL) == (i == 4));
        /* Its functions go well from now on. */
        of_query = MPI_SUCCESS;
        code = MPI_Waitall(N, requests, statuses);
        CHECK_INT(check_class_of(code), long_one == 1 ? MPI_ERR_IN_STATUS : MPI_SUCCESS);
        if (long_one == 1)
            for (int i = 0; i < N; i++)
                CHECK_INT(check_class_of(statuses[i].MPI_ERROR), i == 1 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
        CHECK_INT(got[0], 5);
        CHECK_INT(got[3], 5);
    }
#else
    (void)query, (void)release, (void)cancel;
#endif
    return check_end();
}
