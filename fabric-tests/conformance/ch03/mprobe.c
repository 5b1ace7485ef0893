/* Matched probes take a message out of matching: no other probe or receive finds it, and it is received by its handle.
 *
 * Covers: 3.8.2, 3.8.3, 3.5
 * Ranks: 2
 */
#include "check.h"

static const int lengths[] = {0, 1, 100, 4096, 65536, 1000001};
#define N ((int)(sizeof lengths / sizeof *lengths))

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    unsigned char *bytes = check_alloc(1000001);
    for (int how = 0; how < 4; how++) {
        if (check_rank == 0) {
            unsigned char *out[N];
            MPI_Request requests[N];
            for (int i = 0; i < N; i++) {
                out[i] = check_alloc((size_t)lengths[i]);
                fill(out[i], (size_t)lengths[i], (unsigned)i);
                CHECK_OK(MPI_Isend(out[i], lengths[i], MPI_BYTE, 1, 3, MPI_COMM_WORLD, &requests[i]));
            }
            CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < N; i++) free(out[i]);
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            continue;
        }
        MPI_Message message[2];
        MPI_Status status;
        MPI_Request request;
        int flag;
        for (int i = 0; i < N; i += 2) {
            /* Two are taken out; the second is received before the first. */
            for (int k = 0; k < 2; k++) {
                if (how % 2 == 0)
                    CHECK_OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message[k], &status));
                else
                    for (flag = 0; !flag;)
                        CHECK_OK(MPI_Improbe(0, 3, MPI_COMM_WORLD, &flag, &message[k], &status));
                CHECK_STATUS(status, 0, 3, MPI_BYTE, lengths[i + k]);
                CHECK(message[k] != MPI_MESSAGE_NULL && message[k] != MPI_MESSAGE_NO_PROC);
            }
            CHECK(message[0] != message[1]);
            for (int k = 1; k >= 0; k--) {
                memset(bytes, 0, (size_t)lengths[i + k]);
                if (how < 2)
                    CHECK_OK(MPI_Mrecv(bytes, lengths[i + k], MPI_BYTE, &message[k], &status));
                else {
                    CHECK_OK(MPI_Imrecv(bytes, lengths[i + k], MPI_BYTE, &message[k], &request));
                    CHECK(message[k] == MPI_MESSAGE_NULL);
                    CHECK_OK(MPI_Wait(&request, &status));
                }
                CHECK(message[k] == MPI_MESSAGE_NULL);
                CHECK_STATUS(status, 0, 3, MPI_BYTE, lengths[i + k]);
                CHECK_FILL(bytes, lengths[i + k], i + k);
            }
        }
        CHECK_OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message[0], &status));
        CHECK_INT(flag, 0);
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 5, MPI_COMM_WORLD));
    }
    /* A matched message is invisible to receives and probes. */
    if (check_rank == 0) {
        for (int i = 0; i < 3; i++) CHECK_OK(MPI_Send(&i, 1, MPI_INT, 1, 4, MPI_COMM_WORLD));
    } else {
        MPI_Message first;
        int value = -1;
        MPI_Status status;
        CHECK_OK(MPI_Mprobe(0, 4, MPI_COMM_WORLD, &first, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, &status));
        CHECK_INT(value, 1);
        CHECK_OK(MPI_Probe(0, 4, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK_INT(value, 2);
        CHECK_OK(MPI_Mrecv(&value, 1, MPI_INT, &first, &status));
        CHECK_INT(value, 0);
        CHECK_STATUS(status, 0, 4, MPI_INT, 1);
    }
    free(bytes);
    return check_end();
}
