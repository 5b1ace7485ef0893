/* Cancelling sends, which is deprecated and required: a wait for the send returns whatever the receiver's calls are about;
 * either the message is received and the send was not cancelled, or nothing of it is ever seen. Buffered sends give their
 * room back; persistent sends can be started again.
 *
 * Covers: 3.6, 3.8.4, 3.9
 * Ranks: 2 3
 * [MPICH 5.0 and Open MPI 5.0 cancel no sends over shared memory: their waits for a long one wait for the receiver.]
 */
#include "check.h"

#define BIG 300000
#define LAST 999

enum { STANDARD, SYNCHRONOUS, BUFFERED, PERSISTENT, PERSISTENT_SYNCHRONOUS, PERSISTENT_BUFFERED, MODES };

static MPI_Request begin(int mode, const char *data, int length, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    switch (mode) {
    case STANDARD: CHECK_OK(MPI_Isend(data, length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &request)); break;
    case SYNCHRONOUS: CHECK_OK(MPI_Issend(data, length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &request)); break;
    case BUFFERED: CHECK_OK(MPI_Ibsend(data, length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &request)); break;
    case PERSISTENT: CHECK_OK(MPI_Send_init(data, length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &request)); break;
    case PERSISTENT_SYNCHRONOUS:
        CHECK_OK(MPI_Ssend_init(data, length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &request));
        break;
    default: CHECK_OK(MPI_Bsend_init(data, length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &request)); break;
    }
    if (mode >= PERSISTENT) CHECK_OK(MPI_Start(&request));
    return request;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {0, 8, 5000, BIG};
    static char data[BIG], space[BIG + 4 * MPI_BSEND_OVERHEAD];
    int size = sizeof space;
    void *address;
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int mode = 0; mode < MODES; mode++)
        for (int l = 0; l < 4; l++) {
            int flags[2] = {0, 0}, got = 0;
            MPI_Status status;
            if (check_rank != 0) {
                fill(data, (size_t)lengths[l], (unsigned)check_rank);
                MPI_Request request = begin(mode, data, lengths[l], mode);
                MPI_Request copy = request;
                CHECK_OK(MPI_Cancel(&request));
                CHECK(request == copy);
                CHECK_OK(MPI_Wait(&request, &status));
                CHECK_OK(MPI_Test_cancelled(&status, &flags[0]));
                if (mode < PERSISTENT)
                    CHECK(request == MPI_REQUEST_NULL);
                else {
                    CHECK(request == copy);
                    /* Inactive, and as good as new; this one is meant. */
                    CHECK_OK(MPI_Start(&request));
                    flags[1] = 1;
                }
                CHECK_OK(MPI_Send(flags, 2, MPI_INT, 0, LAST, MPI_COMM_WORLD));
                if (mode >= PERSISTENT) {
                    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                    CHECK_OK(MPI_Request_free(&request));
                }
                if (mode == BUFFERED || mode == PERSISTENT_BUFFERED) {
                    /* Only what was not cancelled is in the way, and that is being received. */
                    CHECK_OK(MPI_Buffer_flush());
                    CHECK_OK(MPI_Bsend(data, BIG, MPI_CHAR, 0, LAST, MPI_COMM_WORLD));
                }
            } else
                for (int from = 1; from < check_size; from++) {
                    CHECK_OK(MPI_Recv(flags, 2, MPI_INT, from, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    int come = (flags[0] ? 0 : 1) + flags[1];
                    for (int i = 0; i < come; i++) {
                        memset(data, 0, BIG);
                        CHECK_OK(MPI_Recv(data, BIG, MPI_CHAR, from, mode, MPI_COMM_WORLD, &status));
                        CHECK_STATUS(status, from, mode, MPI_CHAR, lengths[l]);
                        CHECK_FILL(data, lengths[l], from);
                    }
                    /* Nothing of a cancelled one is left. */
                    for (int i = 0; i < 50; i++) {
                        CHECK_OK(MPI_Iprobe(from, mode, MPI_COMM_WORLD, &got, &status));
                        CHECK_INT(got, 0);
                    }
                    if (mode == BUFFERED || mode == PERSISTENT_BUFFERED)
                        CHECK_OK(MPI_Recv(data, BIG, MPI_CHAR, from, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                }
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    /* A synchronous send that nobody ever receives must not stand in the way of MPI_Finalize (example 11.7). */
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0;
    CHECK_OK(MPI_Issend(data, 1, MPI_CHAR, (check_rank + 1) % check_size, 77, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled);
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    return check_end();
}
