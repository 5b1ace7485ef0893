/* Threads with windows of their own lock, combine and fetch at the same time; their main thread does other things.
 *
 * Covers: 12.5.3, 12.3.4, 11.6
 * Ranks: 2
 */
#include "check.h"
#include <pthread.h>

#define THREADS 3
#define TURNS 60

static MPI_Win windows[THREADS];
static long *memory[THREADS];

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument;
    long one = 1, old, last = -1;
    for (int i = 0; i < TURNS; i++) {
        CHECK_OK(MPI_Win_lock(i % 2 ? MPI_LOCK_SHARED : MPI_LOCK_EXCLUSIVE, 0, 0, windows[me]));
        CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, windows[me]));
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, 0, 1, 1, MPI_LONG, MPI_SUM, windows[me]));
        CHECK_OK(MPI_Win_unlock(0, windows[me]));
        CHECK(old > last);
        last = old;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(MPI_Win_allocate(2 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory[i], &windows[i]));
        memory[i][0] = memory[i][1] = 0;
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < 50; i++) {
        int out = i, in = -1;
        CHECK_OK(MPI_Sendrecv(&out, 1, MPI_INT, 1 - check_rank, 0, &in, 1, MPI_INT, 1 - check_rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(in, i);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, windows[i]));
        CHECK_INT(memory[i][0], check_rank == 0 ? 2 * TURNS : 0);
        CHECK_INT(memory[i][1], check_rank == 0 ? 2 * TURNS : 0);
        CHECK_OK(MPI_Win_unlock(check_rank, windows[i]));
        CHECK_OK(MPI_Win_free(&windows[i]));
    }
    return check_end();
}
