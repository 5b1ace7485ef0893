/* MPI_Request_free of active sends and receives, nonblocking and persistent: the handle is null, the communication still happens.
 *
 * Covers: 3.7.3, 2.5.1
 * Ranks: 2
 */
#include "check.h"

#define N 20

/* Active persistent requests, some never completed by the program, are freed where they stand. */
static void persistent(int length)
{
    unsigned char *out = check_alloc((size_t)length), *in = check_alloc((size_t)length);
    int peer = 1 - check_rank;
    for (int mode = 0; mode < 3; mode++) {
        MPI_Request send, receive;
        MPI_Status status;
        fill(out, (size_t)length, (unsigned)(10 * check_rank + mode));
        memset(in, 0, (size_t)length);
        CHECK_OK(MPI_Recv_init(in, length, MPI_BYTE, peer, 20 + mode, MPI_COMM_WORLD, &receive));
        CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Request_free(&receive));
        CHECK(receive == MPI_REQUEST_NULL);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (mode == 0) CHECK_OK(MPI_Send_init(out, length, MPI_BYTE, peer, 20 + mode, MPI_COMM_WORLD, &send));
        if (mode == 1) CHECK_OK(MPI_Ssend_init(out, length, MPI_BYTE, peer, 20 + mode, MPI_COMM_WORLD, &send));
        if (mode == 2) CHECK_OK(MPI_Rsend_init(out, length, MPI_BYTE, peer, 20 + mode, MPI_COMM_WORLD, &send));
        CHECK_OK(MPI_Start(&send));
        CHECK_OK(MPI_Request_free(&send));
        CHECK(send == MPI_REQUEST_NULL);
        /* What follows in order proves that the freed receive has taken its own. */
        CHECK_OK(MPI_Issend(NULL, 0, MPI_BYTE, peer, 20 + mode, MPI_COMM_WORLD, &send));
        CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, peer, 20 + mode, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, peer, 20 + mode, MPI_BYTE, 0);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        /* Nothing tells when the data of a large one have come, but that the sender is done; a pair of messages after it waits for no
         * data. So the bytes are looked at after a barrier and some progress. */
        for (int turn = 0; turn < 20000 && first_difference_from_fill(in, (size_t)length, (unsigned)(10 * peer + mode)) != (size_t)length;
             turn++) {
            int flag;
            CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, 9999, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
            usleep(100);
        }
        CHECK_FILL(in, length, 10 * peer + mode);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {0, 8, 3000, 70000, 1500000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        int length = lengths[l];
        persistent(length);
        unsigned char *out = check_alloc((size_t)length * N), *in = check_alloc((size_t)length);
        if (check_rank == 0) {
            for (int i = 0; i < N; i++) {
                MPI_Request request;
                fill(out + (size_t)i * (size_t)length, (size_t)length, (unsigned)i);
                if (i % 2)
                    CHECK_OK(MPI_Isend(out + (size_t)i * (size_t)length, length, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request));
                else
                    CHECK_OK(MPI_Issend(out + (size_t)i * (size_t)length, length, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Request_free(&request));
                CHECK(request == MPI_REQUEST_NULL);
            }
            /* The buffer may be used again once the receiver says that it has everything. */
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            MPI_Status status;
            for (int i = N - 1; i >= 0; i--) {
                memset(in, 0, (size_t)length);
                CHECK_OK(MPI_Recv(in, length, MPI_BYTE, 0, i, MPI_COMM_WORLD, &status));
                CHECK_STATUS(status, 0, i, MPI_BYTE, length);
                CHECK_FILL(in, length, i);
            }
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 99, MPI_COMM_WORLD));
        }
        /* A freed receive: the message that follows it in order proves that it has taken its own. */
        if (check_rank == 0) {
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            fill(out, (size_t)length, 5);
            CHECK_OK(MPI_Ssend(out, length, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
            CHECK_OK(MPI_Ssend(out, 0, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
        } else {
            MPI_Request request;
            MPI_Status status;
            memset(in, 0, (size_t)length);
            CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Request_free(&request));
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 98, MPI_COMM_WORLD));
            CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, 0, 7, MPI_BYTE, 0);
            CHECK_FILL(in, length, 5);
        }
        free(out);
        free(in);
    }
    return check_end();
}
