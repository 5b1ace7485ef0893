/* The last rank dies by a signal at the moment named by the first argument; the second is the signal's number, the third a
 * delay in milliseconds. The others sit in whatever the moment says and must not survive. */
#include "../conformance/check.h"
#include <pthread.h>
#include <signal.h>

static int signal_number, delay;

static void *kill_later(void *unused)
{
    (void)unused;
    usleep((useconds_t)delay * 1000);
    kill(getpid(), signal_number);
    return NULL;
}

static void die_later(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, kill_later, NULL);
}

int main(int argc, char **argv)
{
    const char *moment = argc > 1 ? argv[1] : "";
    signal_number = argc > 2 ? atoi(argv[2]) : SIGKILL;
    delay = argc > 3 ? atoi(argv[3]) : 0;
    const char *self = getenv("PMI_RANK");
    const char *all = getenv("PMI_SIZE");
    /* Before MPI_Init the rank is known from what the launcher gives every process. */
    int early = self && all && atoi(self) == atoi(all) - 1;
    if (strcmp(moment, "before_init") == 0 && early) raise(signal_number);
    if (strcmp(moment, "init") == 0 && early) die_later();
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int victim = rank == size - 1, value = 0;
    static char big[1 << 22], other[1 << 22];
    if (victim && strcmp(moment, "init") != 0) {
        if (strcmp(moment, "after_init") == 0) raise(signal_number);
        die_later();
    }
    if (strcmp(moment, "before_init") == 0 || strcmp(moment, "recv") == 0 || strcmp(moment, "after_init") == 0 || strcmp(moment, "init") == 0)
        for (;;) MPI_Recv(&value, 1, MPI_INT, victim ? 0 : size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(moment, "barrier") == 0) {
        if (victim) pause();
        for (;;) MPI_Barrier(MPI_COMM_WORLD);
    }
    if (strcmp(moment, "collectives") == 0)
        for (;;) MPI_Allreduce(other, big, 1 << 16, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (strcmp(moment, "small_messages") == 0)
        for (;;) {
            int peer = rank ^ 1;
            if (peer >= size) peer = MPI_PROC_NULL;
            MPI_Sendrecv(&rank, 1, MPI_INT, peer, 0, &value, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    if (strcmp(moment, "large_messages") == 0)
        for (;;) {
            int peer = rank ^ 1;
            if (peer >= size) peer = MPI_PROC_NULL;
            MPI_Sendrecv(big, 1 << 22, MPI_BYTE, peer, 0, other, 1 << 22, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    if (strcmp(moment, "computing") == 0) {
        if (victim) pause();
        for (;;) value++;
    }
    if (strcmp(moment, "finalize") == 0) {
        if (victim) pause();
        MPI_Finalize();
    }
    if (strcmp(moment, "after_finalize") == 0) {
        MPI_Finalize();
        if (victim) pause();
        return 0;
    }
    printf("survived\n");
    return 0;
}
