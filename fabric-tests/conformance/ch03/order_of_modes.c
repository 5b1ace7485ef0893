/* Messages do not overtake each other whatever calls send them: blocking, nonblocking and persistent ones of all four modes and the
 * sending halves of send-receives, of all lengths, in random order into receives that are posted before; probes show only what
 * those receives leave.
 *
 * Covers: 3.5, 3.7.4, 3.8.1, 3.8.2
 * Ranks: 2
 */
#include "check.h"

enum { N = 28, ROUNDS = 60, LEFT = 3, BIG = 200004, WAYS = 14, TAG = 4 };

static unsigned state = 5;
static int roll(int n)
{
    state = state * 1103515245u + 12345u;
    return (int)((state >> 8) % (unsigned)n);
}

static int length_of(void)
{
    static const int lengths[] = {4, 8, 64, 600, 5000, 20000, 70000, BIG};
    return lengths[roll(8)];
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    char *buffers[N + LEFT], nothing[1];
    for (int i = 0; i < N + LEFT; i++) buffers[i] = check_alloc(BIG);
    int size = (N + LEFT) * (BIG + MPI_BSEND_OVERHEAD);
    void *space = check_alloc((size_t)size);
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int round = 0; round < ROUNDS; round++) {
        int lengths[N + LEFT];
        MPI_Request requests[N + LEFT];
        MPI_Status status, statuses[N];
        for (int i = 0; i < N + LEFT; i++) lengths[i] = length_of();
        if (check_rank == 1) {
            for (int i = 0; i < N; i++)
                CHECK_OK(MPI_Irecv(buffers[i], BIG, MPI_CHAR, (i + round) % 3 ? 0 : MPI_ANY_SOURCE, (i + round) % 5 ? TAG : MPI_ANY_TAG,
                                   MPI_COMM_WORLD, &requests[i]));
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            /* Whatever the posted ones take, the first that can be seen is the one after them. */
            MPI_Message message;
            CHECK_OK(MPI_Probe(0, round % 2 ? TAG : MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, 0, TAG, MPI_CHAR, lengths[N]);
            CHECK_OK(MPI_Mprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &message, &status));
            CHECK_STATUS(status, 0, TAG, MPI_CHAR, lengths[N]);
            CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, 0, TAG, MPI_CHAR, lengths[N + 1]);
            CHECK_OK(MPI_Recv(buffers[N + 1], BIG, MPI_CHAR, 0, TAG, MPI_COMM_WORLD, &status));
            CHECK_OK(MPI_Mrecv(buffers[N], BIG, MPI_CHAR, &message, &status));
            CHECK_OK(MPI_Recv(buffers[N + 2], BIG, MPI_CHAR, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            CHECK_OK(MPI_Waitall(N, requests, statuses));
            for (int i = 0; i < N + LEFT; i++) {
                int number;
                memcpy(&number, buffers[i], sizeof number);
                CHECK_INT(number, 100 * round + i);
                if (i < N) CHECK_STATUS(statuses[i], 0, TAG, MPI_CHAR, lengths[i]);
                CHECK_FILL(buffers[i] + 4, lengths[i] - 4, i);
            }
        } else {
            unsigned shared = state;
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            for (int i = 0; i < N + LEFT; i++) {
                int number = 100 * round + i, way = i < N ? (i * 5 + round * 3 + round / 7) % WAYS : 1;
                char *out = buffers[i];
                memcpy(out, &number, sizeof number);
                fill(out + 4, (size_t)lengths[i] - 4, (unsigned)i);
                requests[i] = MPI_REQUEST_NULL;
#define ARGUMENTS out, lengths[i], MPI_CHAR, 1, TAG, MPI_COMM_WORLD
                switch (way) {
                case 0: CHECK_OK(MPI_Send(ARGUMENTS)); break;
                case 1: CHECK_OK(MPI_Isend(ARGUMENTS, &requests[i])); break;
                case 2: CHECK_OK(MPI_Bsend(ARGUMENTS)); break;
                case 3: CHECK_OK(MPI_Ibsend(ARGUMENTS, &requests[i])); break;
                case 4: CHECK_OK(MPI_Ssend(ARGUMENTS)); break;
                case 5: CHECK_OK(MPI_Issend(ARGUMENTS, &requests[i])); break;
                case 6: CHECK_OK(MPI_Rsend(ARGUMENTS)); break;
                case 7: CHECK_OK(MPI_Irsend(ARGUMENTS, &requests[i])); break;
                case 8: CHECK_OK(MPI_Send_init(ARGUMENTS, &requests[i])); break;
                case 9: CHECK_OK(MPI_Bsend_init(ARGUMENTS, &requests[i])); break;
                case 10: CHECK_OK(MPI_Ssend_init(ARGUMENTS, &requests[i])); break;
                case 11: CHECK_OK(MPI_Rsend_init(ARGUMENTS, &requests[i])); break;
                case 12:
                    CHECK_OK(MPI_Sendrecv(out, lengths[i], MPI_CHAR, 1, TAG, nothing, 0, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                                          MPI_STATUS_IGNORE));
                    break;
                default:
                    CHECK_OK(MPI_Isendrecv(out, lengths[i], MPI_CHAR, 1, TAG, nothing, 0, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                                           &requests[i]));
                }
                if (way >= 8 && way <= 11) CHECK_OK(MPI_Start(&requests[i]));
            }
            CHECK_OK(MPI_Waitall(N + LEFT, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < N; i++)
                if (requests[i] != MPI_REQUEST_NULL) CHECK_OK(MPI_Request_free(&requests[i]));
            state = shared;
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Buffer_detach(&space, &size));
    free(space);
    for (int i = 0; i < N + LEFT; i++) free(buffers[i]);
    return check_end();
}
