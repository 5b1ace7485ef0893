/* Calls that return one status leave its MPI_ERROR alone.
 *
 * Covers: 3.2.5, 3.7.3
 * Ranks: 2
 */
#include "check.h"

#define MARK 123456

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = 1 - check_rank, value = check_rank, got = -1, flag = 0, index;
    MPI_Status status;
    MPI_Request request, requests[2];
    MPI_Message message;
    for (int how = 0; how < 10; how++) {
        status.MPI_ERROR = MARK;
        CHECK_OK(MPI_Isend(&value, 1, MPI_INT, peer, how, MPI_COMM_WORLD, &requests[1]));
        if (how >= 5) CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, peer, how, MPI_COMM_WORLD, &requests[0]));
        switch (how) {
        case 0: CHECK_OK(MPI_Recv(&got, 1, MPI_INT, peer, how, MPI_COMM_WORLD, &status)); break;
        case 1:
            CHECK_OK(MPI_Probe(peer, how, MPI_COMM_WORLD, &status));
            CHECK_INT(status.MPI_ERROR, MARK);
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, peer, how, MPI_COMM_WORLD, &status));
            break;
        case 2:
            while (!flag) CHECK_OK(MPI_Iprobe(peer, how, MPI_COMM_WORLD, &flag, &status));
            CHECK_INT(status.MPI_ERROR, MARK);
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, peer, how, MPI_COMM_WORLD, &status));
            flag = 0;
            break;
        case 3:
            CHECK_OK(MPI_Mprobe(peer, how, MPI_COMM_WORLD, &message, &status));
            CHECK_INT(status.MPI_ERROR, MARK);
            CHECK_OK(MPI_Mrecv(&got, 1, MPI_INT, &message, &status));
            break;
        case 4:
            CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, &got, 1, MPI_INT, peer, how, MPI_COMM_WORLD, &status));
            break;
        case 5: CHECK_OK(MPI_Wait(&requests[0], &status)); break;
        case 6:
            while (!flag) CHECK_OK(MPI_Test(&requests[0], &flag, &status));
            flag = 0;
            break;
        case 7: CHECK_OK(MPI_Waitany(1, requests, &index, &status)); break;
        case 8:
            while (!flag) CHECK_OK(MPI_Testany(1, requests, &index, &flag, &status));
            flag = 0;
            break;
        default:
            while (!flag) CHECK_OK(MPI_Request_get_status(requests[0], &flag, &status));
            CHECK_INT(status.MPI_ERROR, MARK);
            CHECK_OK(MPI_Wait(&requests[0], &status));
            flag = 0;
            break;
        }
        CHECK_INT(status.MPI_ERROR, MARK);
        CHECK_INT(got, peer);
        CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
    }
    /* The empty status of a null request has MPI_SUCCESS by its definition. */
    request = MPI_REQUEST_NULL;
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_EMPTY(status);
    return check_end();
}
