/* Generalized requests: the query function is called by whatever completes or asks, after completion only, with the
 * program's status or one that is valid; the free function once and last; the cancel function is told whether the request
 * was complete.
 *
 * Covers: 13.2, 13.3, 3.7.6
 * Ranks: 1 2
 */
#include "check.h"

struct state {
    int queries, frees, cancels, cancelled_complete, complete, last_status_was_ours;
    MPI_Status *expected;
    MPI_Request copy;
};

static int query(void *extra, MPI_Status *status)
{
    struct state *s = (struct state *)extra;
    CHECK(s->complete);
    CHECK_INT(s->frees, 0);
    CHECK(status != NULL && status != MPI_STATUS_IGNORE && status != MPI_STATUSES_IGNORE);
    s->queries++;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, s->cancels > 0);
    status->MPI_SOURCE = 41;
    status->MPI_TAG = 42;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    struct state *s = (struct state *)extra;
    CHECK(s->complete);
    s->frees++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    struct state *s = (struct state *)extra;
    s->cancels++;
    s->cancelled_complete = complete;
    return MPI_SUCCESS;
}

static MPI_Request begin(struct state *s)
{
    MPI_Request request = MPI_REQUEST_NULL;
    memset(s, 0, sizeof *s);
    CHECK_OK(MPI_Grequest_start(query, release, cancel, s, &request));
    CHECK(request != MPI_REQUEST_NULL);
    s->copy = request;
    return request;
}

static void complete(struct state *s, MPI_Request request)
{
    s->complete = 1;
    CHECK_OK(MPI_Grequest_complete(request));
}

static void look(MPI_Status *status, int cancelled)
{
    int flag = -1;
    CHECK_STATUS(*status, 41, 42, MPI_INT, 3);
    CHECK_OK(MPI_Test_cancelled(status, &flag));
    CHECK_INT(!!flag, cancelled);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    struct state s, more[3];
    MPI_Request request, requests[3];
    MPI_Status status, statuses[3];
    int flag, index, count, indices[3];

    /* Wait. */
    request = begin(&s);
    CHECK_OK(MPI_Test(&request, &flag, &status));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_INT(flag, 0);
    CHECK_INT(s.queries, 0);
    complete(&s, request);
    CHECK_INT(s.queries + s.frees, 0);
    /* Asking calls the query function each time, and frees nothing. */
    for (int i = 1; i <= 3; i++) {
        CHECK_OK(MPI_Request_get_status(request, &flag, i == 2 ? MPI_STATUS_IGNORE : &status));
        CHECK(flag);
        look(&status, 0);
        CHECK(s.queries >= i);
        CHECK_INT(s.frees, 0);
        CHECK(request == s.copy);
    }
    status.MPI_ERROR = 77;
    CHECK_OK(MPI_Wait(&request, &status));
    look(&status, 0);
    CHECK_INT(status.MPI_ERROR, 77);
    CHECK(s.queries >= 4);
    CHECK_INT(s.frees, 1);
    CHECK(request == MPI_REQUEST_NULL);

    /* Every completing call, with and without statuses. */
    for (int call = 0; call < 8; call++)
        for (int ignore = 0; ignore < 2; ignore++) {
            MPI_Status *one = ignore ? MPI_STATUS_IGNORE : &status, *all = ignore ? MPI_STATUSES_IGNORE : statuses;
            for (int i = 0; i < 3; i++) requests[i] = begin(&more[i]);
            int all_of_them = call % 4 == 2;
            for (int i = 0; i < 3; i++)
                if (all_of_them || i == 1) complete(&more[i], requests[i]);
            memset(&status, 0, sizeof status);
            memset(statuses, 0, sizeof statuses);
            flag = 1;
            index = 1;
            switch (call) {
            case 0: CHECK_OK(MPI_Wait(&requests[1], one)); break;
            case 1: CHECK_OK(MPI_Waitany(3, requests, &index, one)); break;
            case 2: CHECK_OK(MPI_Waitall(3, requests, all)); break;
            case 3:
                CHECK_OK(MPI_Waitsome(3, requests, &count, indices, all));
                CHECK_INT(count, 1);
                CHECK_INT(indices[0], 1);
                statuses[1] = statuses[0];
                break;
            case 4: CHECK_OK(MPI_Test(&requests[1], &flag, one)); break;
            case 5: CHECK_OK(MPI_Testany(3, requests, &index, &flag, one)); break;
            case 6: CHECK_OK(MPI_Testall(3, requests, &flag, all)); break;
            default:
                CHECK_OK(MPI_Testsome(3, requests, &count, indices, all));
                CHECK_INT(count, 1);
                CHECK_INT(indices[0], 1);
                statuses[1] = statuses[0];
            }
            CHECK(flag);
            CHECK_INT(index, 1);
            for (int i = 0; i < 3; i++) {
                int over = all_of_them || i == 1;
                /* It may be called more than once, but not for nothing. */
                CHECK((more[i].queries > 0) == over);
                CHECK_INT(more[i].frees, over);
                CHECK(requests[i] == (over ? MPI_REQUEST_NULL : more[i].copy));
            }
            if (!ignore) look(call % 4 < 2 ? &status : &statuses[1], 0);
            for (int i = 0; i < 3; i++)
                if (requests[i] != MPI_REQUEST_NULL) complete(&more[i], requests[i]);
            CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < 3; i++) CHECK_INT(more[i].frees, 1);
        }

    /* Testall that is false touches nothing. */
    for (int i = 0; i < 3; i++) requests[i] = begin(&more[i]);
    complete(&more[0], requests[0]);
    complete(&more[2], requests[2]);
    CHECK_OK(MPI_Testall(3, requests, &flag, statuses));
    CHECK_INT(flag, 0);
    for (int i = 0; i < 3; i++) {
        CHECK(requests[i] == more[i].copy);
        CHECK_INT(more[i].frees, 0);
    }
#if MPI_41
    CHECK_OK(MPI_Request_get_status_some(3, requests, &count, indices, statuses));
    CHECK_INT(count, 2);
    look(&statuses[0], 0);
    look(&statuses[1], 0);
    CHECK_OK(MPI_Request_get_status_any(3, requests, &index, &flag, &status));
    CHECK(flag && (index == 0 || index == 2));
    look(&status, 0);
    CHECK_OK(MPI_Request_get_status_all(3, requests, &flag, statuses));
    CHECK_INT(flag, 0);
#endif
    complete(&more[1], requests[1]);
#if MPI_41
    CHECK_OK(MPI_Request_get_status_all(3, requests, &flag, statuses));
    CHECK(flag);
    for (int i = 0; i < 3; i++) {
        look(&statuses[i], 0);
        CHECK_INT(more[i].frees, 0);
    }
#endif
    CHECK_OK(MPI_Waitall(3, requests, statuses));

    /* Freed before it is complete, and after: the later call frees. The copy of the handle serves meanwhile. */
    request = begin(&s);
    CHECK_OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_INT(s.frees, 0);
    complete(&s, s.copy);
    CHECK_INT(s.frees, 1);
    CHECK_INT(s.queries, 0);
    request = begin(&s);
    complete(&s, request);
    CHECK_INT(s.frees, 0);
    CHECK_OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_INT(s.frees, 1);
    CHECK_INT(s.queries, 0);

    /* Cancel, before and after completion. */
    request = begin(&s);
    CHECK_OK(MPI_Cancel(&request));
    CHECK_INT(s.cancels, 1);
    CHECK_INT(s.cancelled_complete, 0);
    CHECK_OK(MPI_Test(&request, &flag, &status));
    CHECK_INT(flag, 0);
    complete(&s, request);
    CHECK_OK(MPI_Wait(&request, &status));
    look(&status, 1);
    request = begin(&s);
    complete(&s, request);
    CHECK_OK(MPI_Cancel(&request));
    CHECK_INT(s.cancels, 1);
    CHECK(s.cancelled_complete != 0);
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_INT(s.frees, 1);
    return check_end();
}
