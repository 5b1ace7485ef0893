/* The order of matching is that of the calls that start, not of the calls that make a persistent request, and it holds
 * between persistent, nonblocking and blocking operations and all modes, in both directions of matching.
 *
 * Covers: 3.5, 3.7.4, 3.9
 * Ranks: 2
 */
#include "check.h"

#define N 24

static uint64_t state = 99;

static int below(int bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state % (uint64_t)bound);
}

static void shuffle(int *order)
{
    for (int i = 0; i < N; i++) order[i] = i;
    for (int i = N - 1; i > 0; i--) {
        int j = below(i + 1), k = order[i];
        order[i] = order[j];
        order[j] = k;
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {1, 10, 500, 3000, 20000, 100000};
    static int out[N][100000], in[N][100000];
    int order[N], size = 30000000;
    void *space = check_alloc((size_t)size);
    MPI_Request requests[N], plain[N];
    MPI_Status statuses[N];
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int round = 0; round < 12; round++) {
        int late = round % 2;
        shuffle(order);
        if (check_rank == 0) {
            for (int i = 0; i < N; i++) {
                int length = lengths[below(6)];
                switch (i % 4) {
                case 0: CHECK_OK(MPI_Send_init(out[i], length, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[i])); break;
                case 1: CHECK_OK(MPI_Ssend_init(out[i], length, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[i])); break;
                case 2: CHECK_OK(MPI_Bsend_init(out[i], length, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[i])); break;
                default: requests[i] = MPI_REQUEST_NULL;
                }
            }
            if (!late) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            for (int place = 0; place < N; place++) {
                int i = order[place];
                out[i][0] = place;
                if (requests[i] == MPI_REQUEST_NULL)
                    CHECK_OK(MPI_Isend(out[i], lengths[below(6)], MPI_INT, 1, 0, MPI_COMM_WORLD, &plain[i]));
                else {
                    plain[i] = MPI_REQUEST_NULL;
                    CHECK_OK(MPI_Start(&requests[i]));
                }
            }
            if (late) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
            CHECK_OK(MPI_Waitall(N, plain, MPI_STATUSES_IGNORE));
            for (int i = 0; i < N; i++)
                if (requests[i] != MPI_REQUEST_NULL) CHECK_OK(MPI_Request_free(&requests[i]));
            /* In the receiver's order of starts. */
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        } else {
            for (int i = 0; i < N; i++) {
                int source = below(2) ? 0 : MPI_ANY_SOURCE, tag = below(2) ? 0 : MPI_ANY_TAG;
                CHECK_OK(MPI_Recv_init(in[i], 100000, MPI_INT, source, tag, MPI_COMM_WORLD, &requests[i]));
            }
            if (late) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            for (int place = 0; place < N; place++) CHECK_OK(MPI_Start(&requests[order[place]]));
            if (!late) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            CHECK_OK(MPI_Waitall(N, requests, statuses));
            for (int place = 0; place < N; place++) CHECK_INT(in[order[place]][0], place);
            for (int i = 0; i < N; i++) CHECK_OK(MPI_Request_free(&requests[i]));
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    }
    CHECK_OK(MPI_Buffer_detach(&space, &size));
    free(space);
    return check_end();
}
