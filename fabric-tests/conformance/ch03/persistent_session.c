/* Inactive persistent requests, of all modes and partitioned ones, do not keep MPI_Session_finalize from its end, whether their
 * communicator was freed before or is left to it.
 *
 * Covers: 3.9, 11.3.1
 * Ranks: 1 2 3
 * Leaves: yes
 * [Open MPI 5.0 dies in MPI_Session_finalize here.]
 */
#include "check.h"
#include "ch11/sessions.h"

int main(void)
{
    for (int round = 0; round < 4; round++) {
        MPI_Session session;
        MPI_Request requests[5];
        char tag[32];
        int in = -1, out = -1, left, right, never[2];
        snprintf(tag, sizeof tag, "round %d", round);
        CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
        MPI_Comm comm = comm_of_set(session, "mpi://WORLD", tag);
        check_by(comm);
        right = (check_rank + 1) % check_size;
        left = (check_rank + check_size - 1) % check_size;
        CHECK_INT(MPI_Recv_init(&in, 1, MPI_INT, left, 1, comm, &requests[0]), MPI_SUCCESS);
        if (round % 2)
            CHECK_INT(MPI_Ssend_init(&out, 1, MPI_INT, right, 1, comm, &requests[1]), MPI_SUCCESS);
        else
            CHECK_INT(MPI_Send_init(&out, 1, MPI_INT, right, 1, comm, &requests[1]), MPI_SUCCESS);
        CHECK_INT(MPI_Recv_init(&never[0], 1, MPI_INT, MPI_ANY_SOURCE, 99, comm, &requests[2]), MPI_SUCCESS);
        CHECK_INT(MPI_Psend_init(&never[1], 1, 1, MPI_INT, right, 98, comm, MPI_INFO_NULL, &requests[3]), MPI_SUCCESS);
        CHECK_INT(MPI_Precv_init(&never[1], 1, 1, MPI_INT, left, 97, comm, MPI_INFO_NULL, &requests[4]), MPI_SUCCESS);
        for (int start = 0; start < 3; start++) {
            out = 10 * check_rank + start;
            CHECK_INT(MPI_Startall(2, requests), MPI_SUCCESS);
            CHECK_INT(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
            CHECK_INT(in, 10 * left + start);
        }
        if (round < 2) CHECK_INT(MPI_Comm_free(&comm), MPI_SUCCESS);
        CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
        CHECK(session == MPI_SESSION_NULL);
        for (int i = 0; i < 5; i++) CHECK(requests[i] != MPI_REQUEST_NULL);
    }
    return check_verdict();
}
