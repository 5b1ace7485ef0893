/* Messages do not overtake each other: any mixture of sizes and modes from one sender is matched in the order of its
 * sends, by exact, any-tag and any-source receives, posted before or after.
 *
 * Covers: 3.5, 3.7.4
 * Ranks: 2 4
 */
#include "check.h"

#define ROUNDS 40
#define BATCH 24

static unsigned state = 12345;
static unsigned roll(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 8) % n;
}

static int length_of(int number)
{
    static const int lengths[] = {4, 8, 64, 5000, 20000, 70000, 200004, 16, 4};
    return lengths[(number * 7 + number / 5) % 9];
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int receiver = 0, senders = check_size - 1;
    unsigned char *buffers[BATCH];
    for (int i = 0; i < BATCH; i++) buffers[i] = check_alloc(200004);
    state = 1 + (unsigned)check_rank;
    int number = 0, next[8] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        MPI_Request requests[BATCH * 8];
        if (check_rank != receiver) {
            for (int i = 0; i < BATCH; i++, number++) {
                int length = length_of(number);
                memcpy(buffers[i], &number, sizeof number);
                fill(buffers[i] + sizeof number, (size_t)length - sizeof number, (unsigned)number);
                if (roll(2))
                    CHECK_OK(MPI_Isend(buffers[i], length, MPI_BYTE, receiver, 1, MPI_COMM_WORLD, &requests[i]));
                else
                    CHECK_OK(MPI_Issend(buffers[i], length, MPI_BYTE, receiver, 1, MPI_COMM_WORLD, &requests[i]));
            }
            CHECK_OK(MPI_Waitall(BATCH, requests, MPI_STATUSES_IGNORE));
        } else {
            unsigned char *in = check_alloc(200004);
            for (int i = 0; i < BATCH * senders; i++) {
                MPI_Status status;
                int source = MPI_ANY_SOURCE, tag = roll(2) ? 1 : MPI_ANY_TAG, got;
                if (round % 3 == 0) source = 1 + i % senders;
                if (round % 3 == 1) {
                    MPI_Request request;
                    CHECK_OK(MPI_Irecv(in, 200004, MPI_BYTE, source, tag, MPI_COMM_WORLD, &request));
                    CHECK_OK(MPI_Wait(&request, &status));
                } else
                    CHECK_OK(MPI_Recv(in, 200004, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status));
                memcpy(&got, in, sizeof got);
                CHECK_INT(got, next[status.MPI_SOURCE]);
                next[status.MPI_SOURCE] = got + 1;
                CHECK_STATUS(status, status.MPI_SOURCE, 1, MPI_BYTE, length_of(got));
                CHECK_FILL(in + sizeof got, length_of(got) - (int)sizeof got, got);
            }
            free(in);
        }
    }
    for (int i = 0; i < BATCH; i++) free(buffers[i]);
    return check_end();
}
