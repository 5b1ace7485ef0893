/* Calls that return one status leave its MPI_ERROR alone, also when they fail.
 *
 * Covers: 3.2.5, 3.7.3
 * Ranks: 2
 * [MPICH 5.0 sets it in receives from MPI_PROC_NULL.]
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
    for (int how = 0; how < 6; how++) {
        MPI_Request send;
        status.MPI_ERROR = MARK;
        got = -1;
        CHECK_OK(MPI_Isend(&value, 1, MPI_INT, peer, 50 + how, MPI_COMM_WORLD, &send));
        switch (how) {
        case 0:
            for (flag = 0; !flag;) CHECK_OK(MPI_Improbe(peer, 50 + how, MPI_COMM_WORLD, &flag, &message, &status));
            CHECK_INT(status.MPI_ERROR, MARK);
            CHECK_OK(MPI_Imrecv(&got, 1, MPI_INT, &message, &request));
            CHECK_OK(MPI_Wait(&request, &status));
            break;
        case 1:
            got = value;
            CHECK_OK(MPI_Sendrecv_replace(&got, 1, MPI_INT, MPI_PROC_NULL, 0, peer, 50 + how, MPI_COMM_WORLD, &status));
            break;
        case 2:
            CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, peer, 50 + how, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Start(&request));
            CHECK_OK(MPI_Wait(&request, &status));
            CHECK_OK(MPI_Request_free(&request));
            break;
#if MPI_41
        case 3:
            CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, peer, 50 + how, MPI_COMM_WORLD, &request));
            for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status_any(1, &request, &index, &flag, &status));
            CHECK_INT(status.MPI_ERROR, MARK);
            CHECK_OK(MPI_Waitany(1, &request, &index, &status));
            break;
#endif
        case 4: CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 50 + how, MPI_COMM_WORLD, &status)); break;
        default:
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, peer, 50 + how, MPI_COMM_WORLD, &status));
            CHECK_INT(status.MPI_ERROR, MARK);
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
        }
        CHECK_INT(status.MPI_ERROR, MARK);
        CHECK_INT(got, peer);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    /* Messages that are too long. */
    for (int how = 0; how < 5; how++) {
        int two[2] = {1, 2};
        MPI_Request send;
        status.MPI_ERROR = MARK;
        CHECK_OK(MPI_Isend(two, 2, MPI_INT, peer, 70 + how, MPI_COMM_WORLD, &send));
        if (how >= 1) CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, peer, 70 + how, MPI_COMM_WORLD, &request));
        switch (how) {
        case 0: CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, peer, 70 + how, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE); break;
        case 1: CHECK_CLASS(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE); break;
        case 2: {
            int code = MPI_SUCCESS;
            for (flag = 0; !flag && code == MPI_SUCCESS;) code = MPI_Test(&request, &flag, &status);
            CHECK_CLASS(code, MPI_ERR_TRUNCATE);
            break;
        }
        case 3: CHECK_CLASS(MPI_Waitany(1, &request, &index, &status), MPI_ERR_TRUNCATE); break;
        default: {
            int code = MPI_SUCCESS;
            for (flag = 0; !flag && code == MPI_SUCCESS;) code = MPI_Testany(1, &request, &index, &flag, &status);
            CHECK_CLASS(code, MPI_ERR_TRUNCATE);
        }
        }
        CHECK_INT(status.MPI_ERROR, MARK);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    /* The empty status of a null request has MPI_SUCCESS by its definition. */
    request = MPI_REQUEST_NULL;
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_EMPTY(status);
    return check_end();
}
