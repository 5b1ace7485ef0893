/* Of the status of a completed send only what MPI_Test_cancelled says is defined: not cancelled. Every mode, every call that completes.
 *
 * Calls that return one status leave its MPI_ERROR alone.
 *
 * Covers: 3.2.5, 3.7.3, 3.7.5, 3.8.4
 * Ranks: 1 2
 * [MPICH 4.3 has MPI_ERROR of persistent requests set by MPI_Request_get_status.]
 */
#include "check.h"

enum { MODES = 8, CALLS = 9, BIG = 200000, MARK = 123456 };

static char out[BIG], in[BIG], space[2 * BIG + 4 * MPI_BSEND_OVERHEAD];

static MPI_Request begin(int mode, int length, int to, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    switch (mode) {
    case 0: CHECK_OK(MPI_Isend(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); return request;
    case 1: CHECK_OK(MPI_Issend(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); return request;
    case 2: CHECK_OK(MPI_Irsend(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); return request;
    case 3: CHECK_OK(MPI_Ibsend(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); return request;
    case 4: CHECK_OK(MPI_Send_init(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); break;
    case 5: CHECK_OK(MPI_Ssend_init(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); break;
    case 6: CHECK_OK(MPI_Rsend_init(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); break;
    default: CHECK_OK(MPI_Bsend_init(out, length, MPI_CHAR, to, tag, MPI_COMM_WORLD, &request)); break;
    }
    CHECK_OK(MPI_Start(&request));
    return request;
}

int main(int argc, char **argv)
{
    static const int lengths[] = {0, 16, BIG};
    void *address;
    int size;
    check_start(&argc, &argv);
    int peer = check_size - 1 - check_rank, tag = 0;
    CHECK_OK(MPI_Buffer_attach(space, sizeof space));
    for (int mode = 0; mode < MODES; mode++)
        for (int l = 0; l < 3; l++)
            for (int call = 0; call < CALLS; call++) {
                MPI_Request receive, request;
                MPI_Status status;
                int flag = 0, index = -1, count = 0, cancelled = -1;
                memset(&status, 0xFF, sizeof status);
                status.MPI_ERROR = MARK;
                /* Posted at both before either sends: ready sends are right. */
                CHECK_OK(MPI_Irecv(in, BIG, MPI_CHAR, peer, ++tag, MPI_COMM_WORLD, &receive));
                CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
                request = begin(mode, lengths[l], peer, tag);
                switch (call) {
                case 0: CHECK_OK(MPI_Wait(&request, &status)); break;
                case 1:
                    while (!flag) CHECK_OK(MPI_Test(&request, &flag, &status));
                    break;
                case 2: CHECK_OK(MPI_Waitany(1, &request, &index, &status)); break;
                case 3:
                    while (!flag) CHECK_OK(MPI_Testany(1, &request, &index, &flag, &status));
                    break;
                case 4: CHECK_OK(MPI_Waitall(1, &request, &status)); break;
                case 5:
                    while (!flag) CHECK_OK(MPI_Testall(1, &request, &flag, &status));
                    break;
                case 6: CHECK_OK(MPI_Waitsome(1, &request, &count, &index, &status)); break;
                case 7:
                    while (!flag) CHECK_OK(MPI_Request_get_status(request, &flag, &status));
                    CHECK_INT(status.MPI_ERROR, MARK);
                    CHECK_OK(MPI_Wait(&request, &status));
                    CHECK_INT(status.MPI_ERROR, MARK);
                    break;
                default:
                    while (count == 0) CHECK_OK(MPI_Testsome(1, &request, &count, &index, &status));
                }
                CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
                CHECK_INT(cancelled, 0);
                /* Only calls that return several statuses may set it, and nothing failed here. */
                if (call < 4) CHECK_INT(status.MPI_ERROR, MARK);
                if (mode < 4) {
                    CHECK(request == MPI_REQUEST_NULL);
                } else {
                    CHECK(request != MPI_REQUEST_NULL);
                    CHECK_OK(MPI_Request_free(&request));
                }
                CHECK_OK(MPI_Wait(&receive, &status));
                CHECK_STATUS(status, peer, tag, MPI_CHAR, lengths[l]);
            }
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    return check_end();
}
