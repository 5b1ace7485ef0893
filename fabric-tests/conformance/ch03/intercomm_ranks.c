/* Ranks of sends, receives and probes on an intercommunicator are those of the remote group, whatever its size: its last rank is
 * right and the next one is wrong, also where the local group has it. So it is in every mode, with persistent requests, matched probes
 * and send-receives.
 *
 * Covers: 3.2.3, 3.2.4, 3.4, 3.6, 3.8.1, 3.8.2, 3.9, 3.10
 * Ranks: 3 4 5
 * [MPICH 5.0 does not fill the status of MPI_Isendrecv.]
 */
#include "check.h"

enum { STANDARD, SYNCHRONOUS, BUFFERED, NONBLOCKING, NONBLOCKING_SYNCHRONOUS, PERSISTENT, PERSISTENT_SYNCHRONOUS, WAYS };
enum { RECV, IRECV, PERSISTENT_RECV, MRECV, IMRECV, TAKES };

static MPI_Request give(int way, const void *out, int length, int to, int tag, MPI_Comm inter)
{
    MPI_Request request = MPI_REQUEST_NULL;
#define ARGUMENTS out, length, MPI_CHAR, to, tag, inter
    switch (way) {
    case STANDARD: CHECK_OK(MPI_Send(ARGUMENTS)); break;
    case SYNCHRONOUS: CHECK_OK(MPI_Ssend(ARGUMENTS)); break;
    case BUFFERED: CHECK_OK(MPI_Bsend(ARGUMENTS)); break;
    case NONBLOCKING: CHECK_OK(MPI_Isend(ARGUMENTS, &request)); break;
    case NONBLOCKING_SYNCHRONOUS: CHECK_OK(MPI_Issend(ARGUMENTS, &request)); break;
    case PERSISTENT: CHECK_OK(MPI_Send_init(ARGUMENTS, &request)); break;
    default: CHECK_OK(MPI_Ssend_init(ARGUMENTS, &request));
    }
    if (way >= PERSISTENT) CHECK_OK(MPI_Start(&request));
    return request;
}

static void take(int how, void *in, int length, int from, int tag, MPI_Comm inter, MPI_Status *status)
{
    MPI_Request request;
    MPI_Message message;
    int flag = 0;
    switch (how) {
    case RECV: CHECK_OK(MPI_Recv(in, length, MPI_CHAR, from, tag, inter, status)); return;
    case IRECV: CHECK_OK(MPI_Irecv(in, length, MPI_CHAR, from, tag, inter, &request)); break;
    case PERSISTENT_RECV:
        CHECK_OK(MPI_Recv_init(in, length, MPI_CHAR, from, tag, inter, &request));
        CHECK_OK(MPI_Start(&request));
        break;
    case MRECV:
        CHECK_OK(MPI_Mprobe(from, tag, inter, &message, status));
        CHECK_OK(MPI_Mrecv(in, length, MPI_CHAR, &message, status));
        return;
    default:
        while (!flag) CHECK_OK(MPI_Improbe(from, tag, inter, &flag, &message, status));
        CHECK_OK(MPI_Imrecv(in, length, MPI_CHAR, &message, &request));
    }
    CHECK_OK(MPI_Wait(&request, status));
    if (how == PERSISTENT_RECV) CHECK_OK(MPI_Request_free(&request));
}

/* The lone rank sends to all others in every way, which take it in every way and answer so; then both do so at once. */
static void all_ways(MPI_Comm inter, int is_lone, int remote, int mine)
{
    enum { BIG = 100000 };
    static const int lengths[] = {0, 12, 3000, BIG};
    char *out = check_alloc(BIG), *in = check_alloc(BIG);
    int size = 8 * (BIG + MPI_BSEND_OVERHEAD);
    void *space = check_alloc((size_t)size);
    MPI_Status status;
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int way = 0; way < WAYS; way++)
        for (int how = 0; how < TAKES; how++)
            for (int l = 0; l < 4; l++) {
                int length = lengths[l], tag = 100 + way * TAKES + how;
                for (int r = 0; r < remote; r++) {
                    int other = is_lone ? r : mine;
                    for (int half = 0; half < 2; half++) {
                        if ((half == 0) == is_lone) {
                            fill(out, (size_t)length, (unsigned)(other + half));
                            MPI_Request request = give(way, out, length, r, tag, inter);
                            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                            if (request != MPI_REQUEST_NULL) CHECK_OK(MPI_Request_free(&request));
                        } else {
                            take(how, in, BIG, r, tag, inter, &status);
                            CHECK_STATUS(status, r, tag, MPI_CHAR, length);
                            CHECK_FILL(in, length, other + half);
                        }
                    }
                    MPI_Request request;
                    fill(out, (size_t)length, (unsigned)(other + is_lone + 5));
                    if (how % 2)
                        CHECK_OK(MPI_Sendrecv(out, length, MPI_CHAR, r, tag, in, BIG, MPI_CHAR, r, tag, inter, &status));
                    else {
                        CHECK_OK(MPI_Isendrecv(out, length, MPI_CHAR, r, tag, in, BIG, MPI_CHAR, r, tag, inter, &request));
                        CHECK_OK(MPI_Wait(&request, &status));
                    }
                    CHECK_STATUS(status, r, tag, MPI_CHAR, length);
                    CHECK_FILL(in, length, other + !is_lone + 5);
                }
            }
    CHECK_OK(MPI_Buffer_detach(&space, &size));
    free(space);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    MPI_Comm half, inter;
    MPI_Status status;
    MPI_Request request;
    int remote, local, mine, flag, value, is_lone;
    check_start(&argc, &argv);
    /* One rank on the one side, the rest on the other. */
    is_lone = check_rank == 0;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, is_lone, 0, &half));
    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_lone ? 1 : 0, 3, &inter));
    CHECK_OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_OK(MPI_Comm_size(inter, &local));
    CHECK_OK(MPI_Comm_rank(inter, &mine));
    CHECK_INT(remote, is_lone ? check_size - 1 : 1);
    CHECK_CLASS(MPI_Send(&mine, 1, MPI_INT, remote, 0, inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Isend(&mine, 1, MPI_INT, -7, 0, inter, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, remote, 0, inter, &status), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Iprobe(remote, 0, inter, &flag, &status), MPI_ERR_RANK);
    if (is_lone) {
        for (int r = remote - 1; r >= 0; r--) {
            CHECK_OK(MPI_Send(&r, 1, MPI_INT, r, 5, inter));
            CHECK_OK(MPI_Probe(r, 6, inter, &status));
            CHECK_STATUS(status, r, 6, MPI_INT, 1);
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, r, 6, inter, &status));
            CHECK_INT(value, r);
        }
        for (int r = 0; r < remote; r++) {
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, inter, &status));
            CHECK_INT(status.MPI_SOURCE, value);
        }
    } else {
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, &status));
        CHECK_STATUS(status, 0, 5, MPI_INT, 1);
        CHECK_INT(value, mine);
        CHECK_OK(MPI_Send(&mine, 1, MPI_INT, 0, 6, inter));
        CHECK_OK(MPI_Send(&mine, 1, MPI_INT, 0, 7, inter));
    }
    MPI_Message message;
    CHECK_CLASS(MPI_Ssend(&mine, 1, MPI_INT, remote, 0, inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Bsend(&mine, 1, MPI_INT, remote, 0, inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Send_init(&mine, 1, MPI_INT, remote, 0, inter, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv_init(&value, 1, MPI_INT, remote, 0, inter, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Improbe(remote, 0, inter, &flag, &message, &status), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Sendrecv(&mine, 1, MPI_INT, remote, 0, &value, 1, MPI_INT, 0, 0, inter, &status), MPI_ERR_RANK);
    all_ways(inter, is_lone, remote, mine);
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));
    return check_end();
}
