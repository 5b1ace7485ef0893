/* Flushing and detaching a buffer wait for the messages in that buffer and for no others: while a long message that nobody
 * receives lies in the buffer of one level, those of the two other levels are flushed and detached. Then it is received, and its
 * own flush ends.
 *
 * Covers: 3.6
 * Ranks: 1 2
 */
#include "check.h"

enum { LEVELS = 3, BIG = 400000 };

static MPI_Session session;
static MPI_Comm comms[LEVELS];
static char *spaces[LEVELS], *data, *in;

static void attach(int level)
{
    int size = BIG + 2 * MPI_BSEND_OVERHEAD + 100;
    if (level == 0) CHECK_OK(MPI_Buffer_attach(spaces[level], size));
    if (level == 1) CHECK_OK(MPI_Session_attach_buffer(session, spaces[level], size));
    if (level == 2) CHECK_OK(MPI_Comm_attach_buffer(comms[2], spaces[level], size));
}

static void flush(int level, MPI_Request *request)
{
    if (level == 0) CHECK_OK(request ? MPI_Buffer_iflush(request) : MPI_Buffer_flush());
    if (level == 1) CHECK_OK(request ? MPI_Session_iflush_buffer(session, request) : MPI_Session_flush_buffer(session));
    if (level == 2) CHECK_OK(request ? MPI_Comm_iflush_buffer(comms[2], request) : MPI_Comm_flush_buffer(comms[2]));
}

static void detach(int level)
{
    void *address;
    int size;
    if (level == 0) CHECK_OK(MPI_Buffer_detach(&address, &size));
    if (level == 1) CHECK_OK(MPI_Session_detach_buffer(session, &address, &size));
    if (level == 2) CHECK_OK(MPI_Comm_detach_buffer(comms[2], &address, &size));
    CHECK(address == spaces[level]);
}

/* A message to the neighbour by the buffer of a level: 0 the world's, 1 the session's, 2 that of a communicator of the session. */
static void give(int level, int length, int tag)
{
    int peer = check_size - 1 - check_rank;
    CHECK_OK(MPI_Bsend(data, length, MPI_CHAR, peer, tag, comms[level]));
}

static void take(int level, int length, int tag)
{
    int peer = check_size - 1 - check_rank;
    MPI_Status status;
    memset(in, 0, BIG);
    CHECK_OK(MPI_Recv(in, BIG, MPI_CHAR, peer, tag, comms[level], &status));
    CHECK_STATUS(status, peer, tag, MPI_CHAR, length);
    CHECK_FILL(in, length, 9);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    comms[0] = MPI_COMM_WORLD;
    comms[1] = check_comm_of_session("flush", &session);
    CHECK_OK(MPI_Comm_dup(comms[1], &comms[2]));
    for (int i = 0; i < LEVELS; i++) spaces[i] = check_alloc(BIG + 2 * MPI_BSEND_OVERHEAD + 100);
    data = check_alloc(BIG);
    in = check_alloc(BIG);
    fill(data, BIG, 9);
    for (int full = 0; full < LEVELS; full++) {
        MPI_Request own;
        for (int level = 0; level < LEVELS; level++) attach(level);
        give(full, BIG, 5);
        flush(full, &own);
        for (int level = 0; level < LEVELS; level++) {
            if (level == full) continue;
            MPI_Request request;
            flush(level, NULL);
            flush(level, &request);
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            /* One that has gone through is in nobody's way, either. */
            give(level, 30, 6);
            take(level, 30, 6);
            flush(level, NULL);
            detach(level);
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        take(full, BIG, 5);
        CHECK_OK(MPI_Wait(&own, MPI_STATUS_IGNORE));
        detach(full);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Comm_free(&comms[2]));
    CHECK_OK(MPI_Comm_free(&comms[1]));
    CHECK_OK(MPI_Session_finalize(&session));
    for (int i = 0; i < LEVELS; i++) free(spaces[i]);
    free(data);
    free(in);
    return check_end();
}
