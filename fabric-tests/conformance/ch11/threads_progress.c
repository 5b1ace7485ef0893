/* MPI_THREAD_MULTIPLE: a thread blocked in one communicator lets operations go on that other threads began in other
 * communicators and then left alone; an error in a thread goes to its communicator's handler in that thread.
 *
 * Covers: 2.9, 3.5, 9.3, 11.6.1
 * Ranks: 2 4
 * Timeout: 120
 * MPICH 5.0 as built for PyPI tells no truncation of a message to oneself; Open MPI 5.0 passes.
 */
#include "check.h"
#include <pthread.h>

#define LARGE 3000000
static MPI_Comm quiet, busy;
static unsigned char *data;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int stage;
static _Thread_local int here;
static int handled_here, handled_class;

static void reach(int next)
{
    pthread_mutex_lock(&mutex);
    stage = next;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void await(int wanted)
{
    pthread_mutex_lock(&mutex);
    while (stage < wanted) pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    handled_here = here;
    handled_class = check_class_of(*code);
}

/* Begins a long send, does nothing for it until the other thread is through, completes it. */
static void *idle(void *unused)
{
    MPI_Request request;
    int two[2] = {1, 2}, one;
    (void)unused;
    here = 4711;
    CHECK_OK(MPI_Isend(data, LARGE, MPI_BYTE, check_rank ^ 1, 1, quiet, &request));
    reach(1);
    await(2);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Isend(two, 2, MPI_INT, check_rank, 3, quiet, &request));
    CHECK_CLASS(MPI_Recv(&one, 1, MPI_INT, check_rank, 3, quiet, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(handled_here, 4711);
    CHECK_INT(handled_class, MPI_ERR_TRUNCATE);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, word = 0;
    MPI_Errhandler errhandler;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &quiet));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &busy));
    CHECK_OK(MPI_Comm_create_errhandler(handler, &errhandler));
    CHECK_OK(MPI_Comm_set_errhandler(quiet, errhandler));
    CHECK_OK(MPI_Errhandler_free(&errhandler));
    data = check_alloc(LARGE);
    if (check_rank % 2 == 0) {
        pthread_t other;
        fill(data, LARGE, 5);
        pthread_create(&other, NULL, idle, NULL);
        await(1);
        /* The answer comes only when the long message has arrived, which nobody but this thread can bring about. */
        CHECK_OK(MPI_Recv(&word, 1, MPI_INT, check_rank ^ 1, 2, busy, MPI_STATUS_IGNORE));
        CHECK_INT(word, 42);
        reach(2);
        pthread_join(other, NULL);
    } else {
        usleep(20000);
        CHECK_OK(MPI_Recv(data, LARGE, MPI_BYTE, check_rank ^ 1, 1, quiet, MPI_STATUS_IGNORE));
        CHECK_FILL(data, LARGE, 5);
        word = 42;
        CHECK_OK(MPI_Send(&word, 1, MPI_INT, check_rank ^ 1, 2, busy));
    }
    free(data);
    CHECK_OK(MPI_Comm_free(&quiet));
    CHECK_OK(MPI_Comm_free(&busy));
    return check_end();
}
