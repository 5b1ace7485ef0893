/* A process is killed while threads of the others wait for it, each in a communicator of its own: one that was used with it before, one that
 * was never used, and one in which it is asked for nothing until it is dead. All are told, and go on with each other in the same
 * communicators.
 *
 * Covers: 9.3, 11.6.1
 * Ranks: 2 3 4
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 * Timeout: 60
 */
#include "check.h"
#include <pthread.h>
#include <signal.h>

#define THREADS 3
static MPI_Comm comms[THREADS];
static int victim;

/* With the next survivor, and from the one before. */
static void go_on(int t)
{
    int next = (check_rank + 1) % victim, before = (check_rank + victim - 1) % victim;
    for (int i = 0; i < 50; i++) {
        int out = 1000 * check_rank + i, in = -1;
        CHECK_OK(MPI_Sendrecv(&out, 1, MPI_INT, next, i, &in, 1, MPI_INT, before, i, comms[t], MPI_STATUS_IGNORE));
        CHECK_INT(in, 1000 * before + i);
    }
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, got = 0;
    if (t == 0) {
        /* What it said before counts. */
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, victim, 5, comms[t], MPI_STATUS_IGNORE));
        CHECK_INT(got, 42 + check_rank);
        CHECK_OK(MPI_Send(&got, 1, MPI_INT, victim, 6, comms[t]));
    }
    if (t == 2) go_on(t);
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, victim, 7, comms[t], MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Ssend(&got, 1, MPI_INT, victim, 7, comms[t]), MPI_ERR_PROC_ABORTED);
    go_on(t);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    victim = check_size - 1;
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]));
    if (check_rank == victim) {
        for (int i = 0; i < victim; i++) {
            int said = 42 + i;
            MPI_Send(&said, 1, MPI_INT, i, 5, comms[0]);
        }
        for (int i = 0; i < victim; i++) MPI_Recv(&provided, 1, MPI_INT, i, 6, comms[0], MPI_STATUS_IGNORE);
        kill(getpid(), SIGKILL);
    }
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
