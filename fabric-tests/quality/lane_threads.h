/* Threads that work with a communicator each, and the CPUs that each may use afterwards. */
#ifndef LANE_THREADS_H
#define LANE_THREADS_H

#ifndef _GNU_SOURCE
#error "_GNU_SOURCE comes before all headers"
#endif
#include "check.h"
#include <pthread.h>
#include <sched.h>

/* Messages of one thread. */
#define MESSAGES 200

struct worker {
    MPI_Comm comm;
    /* The one CPU to which it binds itself first; -1: none. */
    int own_cpu;
    cpu_set_t mask;
    pthread_barrier_t *together;
    pthread_t thread;
};

static inline void talk(MPI_Comm comm)
{
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < MESSAGES; i++) {
        int got = -1;
        CHECK_OK(MPI_Sendrecv(&i, 1, MPI_INT, right, 1, &got, 1, MPI_INT, left, 1, comm, MPI_STATUS_IGNORE));
        CHECK_INT(got, i);
    }
}

static inline void *work(void *argument)
{
    struct worker *worker = argument;
    if (worker->own_cpu >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(worker->own_cpu, &one);
        CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
    }
    if (worker->comm != MPI_COMM_NULL) talk(worker->comm);
    CHECK_INT(sched_getaffinity(0, sizeof worker->mask, &worker->mask), 0);
    /* Nobody's core is given back before all have looked. */
    pthread_barrier_wait(worker->together);
    return NULL;
}

/* Runs all workers at the same time. */
static inline void run(struct worker *workers, int count)
{
    pthread_barrier_t together;
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        workers[i].together = &together;
        CHECK_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < count; i++) pthread_join(workers[i].thread, NULL);
    pthread_barrier_destroy(&together);
}

#endif
