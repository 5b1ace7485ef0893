/* MPI_THREAD_MULTIPLE: more threads than an implementation may have ways to keep them apart, each with a communicator of its own, exchange
 * messages, some of them in requests that one thread starts and another one completes, and run collectives at the same time.
 *
 * Covers: 11.6.1, 11.6.2, 6.14
 * Ranks: 1 2
 * Env: WEFT_LANES=32
 * Timeout: 240
 */
#include "check.h"
#include <pthread.h>

#define THREADS 36
#define HANDED 5
static MPI_Comm comms[THREADS];
static MPI_Request handed[THREADS][HANDED];
static int values[THREADS][HANDED];

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, n = check_size, me = check_rank, next = (me + 1) % n, before = (me + n - 1) % n;
    unsigned char *out = check_alloc(40000), *in = check_alloc(40000);
    for (int i = 0; i < 20; i++) {
        int length = (i * 7919 + t * 104729) % 40000;
        if (i % 3) length %= 100;
        MPI_Request request;
        MPI_Status status;
        fill(out, (size_t)length, (unsigned)(i + 1000 * t + 10000 * me));
        CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, before, i, comms[t], &request));
        CHECK_OK(MPI_Send(out, length, MPI_BYTE, next, i, comms[t]));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_STATUS(status, before, i, MPI_BYTE, length);
        CHECK_FILL(in, length, i + 1000 * t + 10000 * before);
        int sum = 0, mine = me + t + i;
        CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comms[t]));
        CHECK_INT(sum, n * (n - 1) / 2 + n * (t + i));
        if (i % 8 == 0) CHECK_OK(MPI_Barrier(comms[t]));
    }
    /* Completed by the main thread. */
    for (int i = 0; i < HANDED; i++) {
        int value = 100 * t + i + me;
        CHECK_OK(MPI_Irecv(&values[t][i], 1, MPI_INT, before, 1000 + i, comms[t], &handed[t][i]));
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, next, 1000 + i, comms[t]));
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    CHECK_OK(MPI_Waitall(THREADS * HANDED, &handed[0][0], MPI_STATUSES_IGNORE));
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < HANDED; i++) {
            CHECK_INT(values[t][i], 100 * t + i + (check_rank + check_size - 1) % check_size);
            CHECK(handed[t][i] == MPI_REQUEST_NULL);
        }
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&comms[t]));
    return check_end();
}
