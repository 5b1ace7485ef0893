/* MPI_THREAD_MULTIPLE: persistent collectives of threads with communicators of their own, started and completed by the thread itself, together with
 * persistent messages, or completed and started anew by another one; predefined operations and one of the program, which calls MPI.
 *
 * Covers: 6.13, 3.9, 3.7.5, 11.6.1, 11.6.2
 * Ranks: 1 2 3
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 60 };

static MPI_Comm comms[THREADS];
static MPI_Request handed[THREADS];
static long sums[THREADS][4], own[THREADS][4];
static pthread_barrier_t all;
static MPI_Op larger;

static void maximum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    int size = 0;
    MPI_Type_size(*type, &size);
    if (size != (int)sizeof(long)) return;
    for (int i = 0; i < *count; i++)
        if (((long *)in)[i] > ((long *)inout)[i]) ((long *)inout)[i] = ((long *)in)[i];
}

static void *work(void *argument)
{
    int mine = (int)(long)argument, next = (check_rank + 1) % check_size, last = (check_rank + check_size - 1) % check_size;
    long best[2], out[2], told = 0, from = 0, to = 0;
    MPI_Request requests[5];
    MPI_Comm comm = comms[mine];
    CHECK_OK(MPI_Allreduce_init(own[mine], sums[mine], 4, MPI_LONG, MPI_SUM, comm, MPI_INFO_NULL, &handed[mine]));
    CHECK_OK(MPI_Allreduce_init(out, best, 2, MPI_LONG, larger, comm, MPI_INFO_NULL, &requests[0]));
    CHECK_OK(MPI_Bcast_init(&told, 1, MPI_LONG, 0, comm, MPI_INFO_NULL, &requests[1]));
    CHECK_OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[2]));
    CHECK_OK(MPI_Send_init(&to, 1, MPI_LONG, next, 7, comm, &requests[3]));
    CHECK_OK(MPI_Recv_init(&from, 1, MPI_LONG, last, 7, comm, &requests[4]));
    pthread_barrier_wait(&all);
    for (int round = 0; round < ROUNDS; round++) {
        out[0] = check_rank * 10 + round;
        out[1] = -check_rank - round;
        if (check_rank == 0) told = 1000 * mine + round;
        to = check_rank * 1000 + round;
        if (round % 3 == 0) {
            for (int i = 0; i < 5; i++) CHECK_OK(MPI_Start(&requests[i]));
            for (int i = 4; i >= 0; i--) CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        } else {
            int done = 0;
            CHECK_OK(MPI_Startall(5, requests));
            if (round % 3 == 1)
                for (int i = 0; i < 5; i++, done = 0)
                    while (!done) CHECK_OK(MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE));
            else
                CHECK_OK(MPI_Waitall(5, requests, MPI_STATUSES_IGNORE));
        }
        CHECK_INT(best[0], (int)(check_size - 1) * 10 + round);
        CHECK_INT(best[1], (int)-round);
        CHECK_INT(told, (int)1000 * mine + round);
        CHECK_INT(from, (int)last * 1000 + round);
        /* One operation whose thread is another in every round. */
        int whose = (mine + round) % THREADS;
        pthread_barrier_wait(&all);
        for (int i = 0; i < 4; i++) own[whose][i] = check_rank + i * round;
        CHECK_OK(MPI_Start(&handed[whose]));
        if (round % 2) pthread_barrier_wait(&all);
        int by = round % 2 ? (whose + 1) % THREADS : whose;
        CHECK_OK(MPI_Wait(&handed[by], MPI_STATUS_IGNORE));
        for (int i = 0; i < 4; i++)
            CHECK_INT(sums[by][i], (int)check_size * (check_size - 1) / 2 + (long)check_size * i * round);
        pthread_barrier_wait(&all);
    }
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Request_free(&requests[i]));
    CHECK_OK(MPI_Request_free(&handed[mine]));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Op_create(maximum, 1, &larger));
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    pthread_barrier_init(&all, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    CHECK_OK(MPI_Op_free(&larger));
    return check_end();
}
