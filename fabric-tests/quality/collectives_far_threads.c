/* Threads with communicators of their own, each in short collectives over all processes at the same time: nobody waits while it keeps others from
 * going on. (tests/algorithms.rs runs it on several nodes, where a call goes by shared memory and by messages in turn.)
 *
 * Covers: 6.1, 11.6.2
 * Ranks: 2 4
 * Timeout: 120
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, CALLS = 150 };

static MPI_Comm comms[THREADS];

static void *calls(void *argument)
{
    int number = *(int *)argument;
    MPI_Comm comm = comms[number];
    for (int i = 0; i < CALLS; i++) {
        int me = check_rank + i + number, sum = -1, root = (i + number) % check_size, value = check_rank == root ? i : -1;
        if (i % 13 == check_rank + number) usleep(500);
        CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_INT(sum, check_size * (check_size - 1) / 2 + check_size * (i + number));
        CHECK_OK(MPI_Bcast(&value, 1, MPI_INT, root, comm));
        CHECK_INT(value, i);
        sum = -1;
        CHECK_OK(MPI_Reduce(&me, &sum, 1, MPI_INT, MPI_MAX, root, comm));
        CHECK_INT(sum, check_rank == root ? check_size - 1 + i + number : -1);
        CHECK_OK(MPI_Barrier(comm));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    if (provided < MPI_THREAD_MULTIPLE) return check_end();
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, calls, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
