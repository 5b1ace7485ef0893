/* MPI_THREAD_MULTIPLE: the first messages of communicators just made, by a thread for each, from everybody to everybody at once. Both sides
 * begin before either has heard anything of the other there; nothing may be lost.
 *
 * Covers: 11.6.1, 11.6.2, 7.4.2, 3.7.2
 * Ranks: 2 4
 * Timeout: 120
 */
#include "check.h"
#include <pthread.h>

#define THREADS 6
#define MOST 64
static MPI_Comm comms[THREADS];

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, n = check_size, me = check_rank, in[MOST], out = me * 100 + t;
    for (int round = 0; round < 3; round++) {
        MPI_Request requests[2 * MOST];
        int count = 0;
        for (int peer = 0; peer < n; peer++) {
            in[peer] = -1;
            if (peer == me) continue;
            CHECK_OK(MPI_Irecv(&in[peer], 1, MPI_INT, peer, round, comms[t], &requests[count++]));
            CHECK_OK(MPI_Isend(&out, 1, MPI_INT, peer, round, comms[t], &requests[count++]));
        }
        CHECK_OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
        for (int peer = 0; peer < n; peer++)
            if (peer != me) CHECK_INT(in[peer], peer * 100 + t);
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
    for (int again = 0; again < 3; again++) {
        for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
        for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&comms[t]));
    }
    return check_end();
}
