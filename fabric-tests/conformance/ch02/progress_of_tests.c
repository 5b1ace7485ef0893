/* Every test procedure, called again and again although it says no, makes progress for all of the process: other
 * communicators, other sessions, buffered and synchronous sends, matched receives, partitioned operations. MPI_Win_test, too.
 *
 * Covers: 2.9, 2.4.2, 3.5, 3.7.6, 4.2.2, 12.5.2
 * Ranks: 2
 */
#include "check.h"

#define BIG 2000000
#if MPI_41
#define FLUSH() CHECK_OK(MPI_Buffer_flush())
#else
#define FLUSH() CHECK_OK((MPI_Buffer_detach(&space, &size), MPI_Buffer_attach(space, size)))
#endif

enum { TEST, TESTANY, TESTALL, TESTSOME, IPROBE, IMPROBE, GET_STATUS, PARRIVED, WIN_TEST, GET_ANY, GET_ALL, GET_SOME, CALLS };

static MPI_Request never[2], partitioned;
static MPI_Win window;

/* Asks once; what is asked for comes only when `go` has been sent. True when it has come. */
static int ask(int call)
{
    int flag = 0, index, count = 0, indices[2];
    MPI_Message message;
    switch (call) {
    case TEST: CHECK_OK(MPI_Test(&never[0], &flag, MPI_STATUS_IGNORE)); break;
    case TESTANY: CHECK_OK(MPI_Testany(2, never, &index, &flag, MPI_STATUS_IGNORE)); break;
    case TESTALL: CHECK_OK(MPI_Testall(2, never, &flag, MPI_STATUSES_IGNORE)); break;
    case TESTSOME:
        CHECK_OK(MPI_Testsome(2, never, &count, indices, MPI_STATUSES_IGNORE));
        flag = count > 0;
        break;
    case IPROBE: CHECK_OK(MPI_Iprobe(0, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE)); break;
    case IMPROBE:
        CHECK_OK(MPI_Improbe(0, 9, MPI_COMM_WORLD, &flag, &message, MPI_STATUS_IGNORE));
        if (flag) CHECK_OK(MPI_Mrecv(NULL, 0, MPI_INT, &message, MPI_STATUS_IGNORE));
        break;
    case WIN_TEST: CHECK_OK(MPI_Win_test(window, &flag)); break;
    case PARRIVED: CHECK_OK(MPI_Parrived(partitioned, 0, &flag)); break;
#if MPI_41
    case GET_ANY: CHECK_OK(MPI_Request_get_status_any(2, never, &index, &flag, MPI_STATUS_IGNORE)); break;
    case GET_ALL: CHECK_OK(MPI_Request_get_status_all(2, never, &flag, MPI_STATUSES_IGNORE)); break;
    case GET_SOME:
        CHECK_OK(MPI_Request_get_status_some(2, never, &count, indices, MPI_STATUSES_IGNORE));
        flag = count > 0;
        break;
#endif
    default: CHECK_OK(MPI_Request_get_status(never[0], &flag, MPI_STATUS_IGNORE));
    }
    return flag;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Session session;
    MPI_Comm other = check_comm_of_session("other", &session);
    unsigned char *out = check_alloc(BIG), *in = check_alloc(BIG);
    void *space = check_alloc(BIG + MPI_BSEND_OVERHEAD);
    int size = BIG + MPI_BSEND_OVERHEAD, one = 1, part = 0;
    MPI_Group world, asker, other_one;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Group_incl(world, 1, &(int){1}, &asker));
    CHECK_OK(MPI_Group_incl(world, 1, &(int){0}, &other_one));
    CHECK_OK(MPI_Win_create(&part, sizeof part, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int call = 0; call < (MPI_41 ? CALLS : GET_ANY); call++)
        for (int what = 0; what < 3; what++) {
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            if (check_rank == 1) {
                /* Something on the other session that needs this process's help, then only questions. */
                MPI_Request request = MPI_REQUEST_NULL;
                never[1] = MPI_REQUEST_NULL;
                int uses_request = call != IPROBE && call != IMPROBE && call != PARRIVED && call != WIN_TEST;
                if (call == WIN_TEST) CHECK_OK(MPI_Win_post(other_one, 0, window));
                if (uses_request)
                    CHECK_OK(MPI_Irecv(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD, &never[0]));
                if (call == PARRIVED) {
                    CHECK_OK(MPI_Precv_init(&part, 1, 1, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned));
                    CHECK_OK(MPI_Start(&partitioned));
                }
                memset(in, 0, BIG);
                fill(out, BIG, 2);
                if (what == 0) CHECK_OK(MPI_Irecv(in, BIG, MPI_BYTE, 0, 1, other, &request));
                if (what == 1) CHECK_OK(MPI_Isend(out, BIG, MPI_BYTE, 0, 1, other, &request));
                if (what == 2) CHECK_OK(MPI_Bsend(out, BIG, MPI_BYTE, 0, 1, other));
                while (!ask(call)) {
                }
                if (uses_request) CHECK_OK(MPI_Wait(&never[0], MPI_STATUS_IGNORE));
                if (call == IPROBE) CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                if (call == PARRIVED) {
                    CHECK_OK(MPI_Wait(&partitioned, MPI_STATUS_IGNORE));
                    CHECK_OK(MPI_Request_free(&partitioned));
                }
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                if (what == 0) CHECK_FILL(in, BIG, 1);
                FLUSH();
            } else {
                fill(out, BIG, 1);
                memset(in, 0, BIG);
                /* Blocks until the other process has helped, which is only asking. */
                if (what == 0)
                    CHECK_OK(MPI_Ssend(out, BIG, MPI_BYTE, 1, 1, other));
                else {
                    CHECK_OK(MPI_Recv(in, BIG, MPI_BYTE, 1, 1, other, MPI_STATUS_IGNORE));
                    CHECK_FILL(in, BIG, 2);
                }
                if (call == WIN_TEST) {
                    CHECK_OK(MPI_Win_start(asker, 0, window));
                    CHECK_OK(MPI_Win_complete(window));
                } else if (call == PARRIVED) {
                    CHECK_OK(MPI_Psend_init(&one, 1, 1, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned));
                    CHECK_OK(MPI_Start(&partitioned));
                    CHECK_OK(MPI_Pready(0, partitioned));
                    CHECK_OK(MPI_Wait(&partitioned, MPI_STATUS_IGNORE));
                    CHECK_OK(MPI_Request_free(&partitioned));
                } else
                    CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 9, MPI_COMM_WORLD));
            }
        }
    CHECK_OK(MPI_Buffer_detach(&space, &size));
    CHECK_OK(MPI_Win_free(&window));
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Group_free(&asker));
    CHECK_OK(MPI_Group_free(&other_one));
    CHECK_OK(MPI_Comm_free(&other));
    CHECK_OK(MPI_Session_finalize(&session));
    free(out);
    free(in);
    return check_end();
}
