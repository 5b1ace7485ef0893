/* Message rate of threads with communicators of their own, to be held against that of as many processes.
 *
 *     mpiexec -n 4 ./mt_mr 1        two pairs of single-threaded processes
 *     mpiexec -n 2 ./mt_mr 2        two processes with two threads each (MPI_THREAD_MULTIPLE)
 *
 * Rank r of the lower half sends windows of nonblocking messages to rank r + n/2, thread by thread, each in a communicator of
 * its own (one thread: MPI_COMM_WORLD). Prints messages a second over all, and processor time a message, which says more where
 * threads outnumber cores. scripts/compare-threads runs both alternately.
 *
 * Where the scheduler puts sender and receiver decides the rate by a factor of two, so a last argument binds them: `apart` all
 * senders to the lower half of the cores and all receivers to the upper one, `together` each pair to one core.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_THREADS = 64, WINDOW = 64, TAG_DATA = 1, TAG_ANSWER = 2 };

static int rank, ranks, size = 8, windows = 20000;
static MPI_Comm comms[MOST_THREADS];
static pthread_barrier_t barrier;
static const char *placement = "free";

/* Binds the calling thread, of `threads`, as the placement says. Both kinds of runs bind pair by pair in the same way. */
static void bind_thread(int thread, int threads)
{
    cpu_set_t all, one;
    int lower = rank < ranks / 2, pair = (lower ? rank : rank - ranks / 2) * threads + thread, cores, half, wanted, core;
    if (!strcmp(placement, "free") || sched_getaffinity(0, sizeof all, &all))
        return;
    cores = CPU_COUNT(&all);
    half = cores / 2 ? cores / 2 : 1;
    wanted = !strcmp(placement, "together") ? pair % cores : (pair % half + (lower ? 0 : half)) % cores;
    for (core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &all) && wanted-- == 0)
            break;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
}

static void window_of_messages(MPI_Comm comm, char *data)
{
    MPI_Request requests[WINDOW];
    int i, lower = rank < ranks / 2, partner = lower ? rank + ranks / 2 : rank - ranks / 2;
    char answer[4] = {0};
    for (i = 0; i < WINDOW; i++) {
        if (lower)
            MPI_Isend(data, size, MPI_CHAR, partner, TAG_DATA, comm, &requests[i]);
        else
            MPI_Irecv(data, size, MPI_CHAR, partner, TAG_DATA, comm, &requests[i]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (lower)
        MPI_Recv(answer, sizeof answer, MPI_CHAR, partner, TAG_ANSWER, comm, MPI_STATUS_IGNORE);
    else
        MPI_Send(answer, sizeof answer, MPI_CHAR, partner, TAG_ANSWER, comm);
}

static int threads = 1;

static void *run(void *argument)
{
    MPI_Comm comm = comms[(int)(size_t)argument];
    char *data = calloc(1, (size_t)size + 1);
    int i;
    if (!data)
        abort();
    bind_thread((int)(size_t)argument, threads);
    for (i = 0; i < windows / 10; i++)
        window_of_messages(comm, data);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (i = 0; i < windows; i++)
        window_of_messages(comm, data);
    /* Nobody ends before all are through: how a thread waits depends on how many there are. */
    pthread_barrier_wait(&barrier);
    free(data);
    return NULL;
}

static double processor_time(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    int provided = MPI_THREAD_MULTIPLE, t;
    double began, used, longest, own[2], processor, messages;
    pthread_t others[MOST_THREADS];
    if (argc > 1)
        threads = atoi(argv[1]);
    if (argc > 2)
        size = atoi(argv[2]);
    if (argc > 3)
        windows = atoi(argv[3]);
    if (argc > 4)
        placement = argv[4];
    if (threads == 1)
        MPI_Init(&argc, &argv);
    else
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks % 2 || threads < 1 || threads > MOST_THREADS || size < 0 || windows < 1 || provided < MPI_THREAD_MULTIPLE) {
        if (rank == 0)
            fprintf(stderr, "usage: mpiexec -n EVEN ./mt_mr THREADS [BYTES [WINDOWS [free|apart|together]]], with an MPI that has MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    comms[0] = MPI_COMM_WORLD;
    for (t = 0; threads > 1 && t < threads; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[t]);
    for (t = 1; t < threads; t++)
        pthread_create(&others[t], NULL, run, (void *)(size_t)t);
    /* This thread is one of them, and keeps the time. */
    {
        char *data = calloc(1, (size_t)size + 1);
        int i;
        if (!data)
            abort();
        bind_thread(0, threads);
        for (i = 0; i < windows / 10; i++)
            window_of_messages(comms[0], data);
        pthread_barrier_wait(&barrier);
        MPI_Barrier(MPI_COMM_WORLD);
        used = processor_time();
        began = MPI_Wtime();
        pthread_barrier_wait(&barrier);
        for (i = 0; i < windows; i++)
            window_of_messages(comms[0], data);
        pthread_barrier_wait(&barrier);
        free(data);
    }
    own[0] = MPI_Wtime() - began;
    own[1] = processor_time() - used;
    for (t = 1; t < threads; t++)
        pthread_join(others[t], NULL);
    /* Of processes as of threads the slowest pair counts: the mean would let fast pairs of processes make up for slow ones. */
    MPI_Reduce(&own[0], &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&own[1], &processor, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    messages = (double)windows * WINDOW * threads * (ranks / 2);
    if (rank == 0)
        printf("messages_per_s %.0f cpu_ns_per_message %.1f\n", messages / longest, 1e9 * processor / messages);
    for (t = 0; threads > 1 && t < threads; t++)
        MPI_Comm_free(&comms[t]);
    MPI_Finalize();
    return 0;
}
