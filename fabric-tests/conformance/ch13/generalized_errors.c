/* Codes that the functions of generalized requests return are those of the calls: of the last function where one request
 * completes, MPI_ERR_IN_STATUS and the free function's code in each status where several do.
 *
 * Covers: 13.2, 3.7.5
 * Ranks: 1
 * [MPICH 5.0 drops the code of a free function that MPI_Grequest_complete calls, puts codes of its own into the
 * statuses, and returns the query function's code although the free function comes after it; Open MPI 5.0 drops the codes of the
 * calls that complete one request.]
 */
#include "check.h"

static int of_query, of_free, of_cancel;

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 41;
    status->MPI_TAG = 42;
    return of_query;
}

static int release(void *extra)
{
    return extra ? *(int *)extra : of_free;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return of_cancel;
}

static MPI_Request done(void *extra)
{
    MPI_Request request;
    CHECK_OK(MPI_Grequest_start(query, release, cancel, extra, &request));
    CHECK_OK(MPI_Grequest_complete(request));
    return request;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int mine, code, flag, index, count, indices[4], value = 3, got = 0, codes[4];
    MPI_Request request, requests[4];
    MPI_Status status, statuses[4];
    CHECK_OK(MPI_Add_error_class(&mine));
    CHECK_OK(MPI_Add_error_code(mine, &code));

    of_free = code;
    request = done(NULL);
    CHECK_INT(MPI_Wait(&request, &status), code);
    CHECK(request == MPI_REQUEST_NULL);
    request = done(NULL);
    CHECK_INT(MPI_Test(&request, &flag, MPI_STATUS_IGNORE), code);
    request = done(NULL);
    CHECK_INT(MPI_Waitany(1, &request, &index, &status), code);
    request = done(NULL);
    CHECK_INT(MPI_Testany(1, &request, &index, &flag, &status), code);
    request = done(NULL);
    CHECK_INT(MPI_Request_free(&request), code);
    CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &request));
    MPI_Request copy = request;
    CHECK_OK(MPI_Request_free(&request));
    CHECK_INT(MPI_Grequest_complete(copy), code);
    of_free = MPI_SUCCESS;

    /* The query function's code, where nothing else is called. The status is what it has set, all the same. */
    of_query = code;
    request = done(NULL);
    status.MPI_SOURCE = status.MPI_TAG = 7;
    CHECK_INT(MPI_Request_get_status(request, &flag, &status), code);
    CHECK_INT(status.MPI_SOURCE, 41);
    CHECK_INT(status.MPI_TAG, 42);
    of_query = MPI_SUCCESS;
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_INT(status.MPI_SOURCE, 41);

    /* Where both fail, the code is that of the free function, which is called last. (Of a query function that fails alone the text would
     * have nobody hear; MPICH and Open MPI tell it.) */
    of_query = code;
    of_free = MPI_ERR_OTHER;
    request = done(NULL);
    CHECK_INT(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER);
    request = done(NULL);
    CHECK_INT(MPI_Test(&request, &flag, &status), MPI_ERR_OTHER);
    request = done(NULL);
    CHECK_INT(MPI_Waitany(1, &request, &index, &status), MPI_ERR_OTHER);
    request = done(NULL);
    CHECK_INT(MPI_Testany(1, &request, &index, &flag, &status), MPI_ERR_OTHER);
    for (int call = 0; call < 4; call++) {
        request = done(NULL);
        status.MPI_ERROR = MPI_SUCCESS;
        int result = call == 0   ? MPI_Waitall(1, &request, &status)
                     : call == 1 ? MPI_Testall(1, &request, &flag, &status)
                     : call == 2 ? MPI_Waitsome(1, &request, &count, indices, &status)
                                 : MPI_Testsome(1, &request, &count, indices, &status);
        CHECK_INT(check_class_of(result), MPI_ERR_IN_STATUS);
        CHECK_INT(status.MPI_ERROR, MPI_ERR_OTHER);
    }
    of_query = of_free = MPI_SUCCESS;

    of_cancel = code;
    CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &request));
    CHECK_INT(MPI_Cancel(&request), code);
    of_cancel = MPI_SUCCESS;
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Wait(&request, &status));

    /* Some fail, some do not, one is a message. */
    for (int call = 0; call < 4; call++)
        for (int ignore = 0; ignore < 2; ignore++) {
            CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &requests[1]));
            CHECK_OK(MPI_Send(&value, 1, MPI_INT, 0, 1, MPI_COMM_SELF));
            codes[0] = MPI_SUCCESS;
            codes[2] = code;
            codes[3] = MPI_ERR_OTHER;
            for (int i = 0; i < 4; i++)
                if (i != 1) requests[i] = done(&codes[i]);
            for (int i = 0; i < 4; i++) statuses[i].MPI_ERROR = -1;
            MPI_Status *where = ignore ? MPI_STATUSES_IGNORE : statuses;
            int result, left = 4;
            if (call == 0) result = MPI_Waitall(4, requests, where);
            else if (call == 1) result = MPI_Testall(4, requests, &flag, where);
            else {
                do CHECK_OK(MPI_Request_get_status(requests[1], &flag, MPI_STATUS_IGNORE));
                while (!flag);
                result = call == 2 ? MPI_Waitsome(4, requests, &count, indices, where)
                                   : MPI_Testsome(4, requests, &count, indices, where);
                CHECK_INT(count, 4);
                left = count;
            }
            CHECK_INT(check_class_of(result), MPI_ERR_IN_STATUS);
            for (int i = 0; i < left; i++) {
                int which = call < 2 ? i : indices[i];
                CHECK(requests[which] == MPI_REQUEST_NULL);
                if (!ignore) CHECK_INT(statuses[i].MPI_ERROR, which == 1 ? MPI_SUCCESS : codes[which]);
            }
            CHECK_INT(got, 3);
        }
    return check_end();
}
