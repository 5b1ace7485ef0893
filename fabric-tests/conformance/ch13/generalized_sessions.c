/* Generalized requests belong to no session and no communicator: a process that has sessions only starts them, completes them beside
 * the requests of any session, and still after that session has ended.
 *
 * Covers: 11.3, 11.3.1, 13.2
 * Ranks: 1 2 3
 */
#include "check.h"
#include "ch11/sessions.h"

static int queries, frees;

static int query(void *extra, MPI_Status *status)
{
    queries++;
    MPI_Status_set_elements(status, MPI_INT, *(int *)extra);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    frees++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

/* Messages around the ring of a session's communicator, completed in one call with the generalized request. */
static void beside(MPI_Comm comm, MPI_Request generalized, int elements)
{
    int rank, size, got = -1, count = -1;
    MPI_Request requests[3], copy = generalized;
    MPI_Status statuses[3];
    CHECK_INT(MPI_Comm_rank(comm, &rank), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_size(comm, &size), MPI_SUCCESS);
    CHECK_INT(MPI_Irecv(&got, 1, MPI_INT, (rank + size - 1) % size, 3, comm, &requests[0]), MPI_SUCCESS);
    CHECK_INT(MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 3, comm, &requests[1]), MPI_SUCCESS);
    requests[2] = generalized;
    CHECK_INT(MPI_Grequest_complete(copy), MPI_SUCCESS);
    CHECK_INT(MPI_Waitall(3, requests, statuses), MPI_SUCCESS);
    CHECK_INT(got, (rank + size - 1) % size);
    CHECK(requests[2] == MPI_REQUEST_NULL);
    CHECK_INT(MPI_Get_elements(&statuses[2], MPI_INT, &count), MPI_SUCCESS);
    CHECK_INT(count, elements);
}

int main(void)
{
    MPI_Session sessions[2];
    MPI_Comm comms[2];
    MPI_Request early, late, alone;
    MPI_Status status;
    int one = 1, two = 2, three = 3, flag = 1, count = -1;
    for (int i = 0; i < 2; i++) {
        CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions[i]), MPI_SUCCESS);
        comms[i] = comm_of_set(sessions[i], "mpi://WORLD", i ? "second" : "first");
    }
    check_by(comms[0]);
    CHECK_INT(MPI_Grequest_start(query, release, cancel, &one, &early), MPI_SUCCESS);
    CHECK_INT(MPI_Grequest_start(query, release, cancel, &two, &late), MPI_SUCCESS);
    CHECK_INT(MPI_Grequest_start(query, release, cancel, &three, &alone), MPI_SUCCESS);
    CHECK_INT(MPI_Test(&alone, &flag, &status), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    beside(comms[0], early, 1);
    CHECK_INT(MPI_Comm_free(&comms[0]), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&sessions[0]), MPI_SUCCESS);
    /* It was started while the first session was open. */
    beside(comms[1], late, 2);
    CHECK_INT(MPI_Test(&alone, &flag, &status), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    CHECK_INT(MPI_Grequest_complete(alone), MPI_SUCCESS);
    CHECK_INT(MPI_Wait(&alone, &status), MPI_SUCCESS);
    CHECK_INT(MPI_Get_elements(&status, MPI_INT, &count), MPI_SUCCESS);
    CHECK_INT(count, 3);
    CHECK_INT(queries, 3);
    CHECK_INT(frees, 3);
    CHECK_INT(MPI_Comm_free(&comms[1]), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&sessions[1]), MPI_SUCCESS);
    return check_verdict();
}
