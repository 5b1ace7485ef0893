/* MPI_THREAD_MULTIPLE: four threads of each rank share one communicator, told apart by tags; each stream is in order.
 *
 * Covers: 11.6.1, 11.6.2, 3.5
 * Ranks: 1 2 3
 * Timeout: 120
 */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define N 2000

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, n = check_size, me = check_rank, next = (me + 1) % n, before = (me + n - 1) % n;
    static int window[THREADS][16][2];
    MPI_Request requests[16];
    for (int i = 0; i < N; i += 16) {
        for (int k = 0; k < 16; k++)
            CHECK_OK(MPI_Irecv(window[t][k], 2, MPI_INT, before, t, MPI_COMM_WORLD, &requests[k]));
        for (int k = 0; k < 16; k++) {
            int message[2] = {i + k, t};
            CHECK_OK(MPI_Send(message, 2, MPI_INT, next, t, MPI_COMM_WORLD));
        }
        CHECK_OK(MPI_Waitall(16, requests, MPI_STATUSES_IGNORE));
        for (int k = 0; k < 16; k++) {
            CHECK_INT(window[t][k][0], i + k);
            CHECK_INT(window[t][k][1], t);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    return check_end();
}
