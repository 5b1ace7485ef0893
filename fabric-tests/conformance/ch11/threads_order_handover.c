/* The order of two operations that different threads start is defined where one thread hands over to the other: messages of one
 * communicator and tag are then received in the order in which they were sent, whichever thread sent them, however, and of whatever
 * length; and receives that two threads post in turns take them in the order in which they were posted.
 *
 * Covers: 3.5, 11.6.2
 * Ranks: 2
 * Timeout: 120
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, N = 60, ROUNDS = 12, BIG = 200004, TAG = 4, WAYS = 7 };

static MPI_Comm comm;
static MPI_Request requests[N];
static char *buffers[N];
static int lengths[N], turn, current, is_posted_first;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;
static unsigned state;

static int roll(int n)
{
    state = state * 1103515245u + 12345u;
    return (int)((state >> 8) % (unsigned)n);
}

static void send_one(int i)
{
    char *out = buffers[i];
    requests[i] = MPI_REQUEST_NULL;
    /* Blocking synchronous sends end only when their receives are posted, which is so in some rounds. */
    int way = (i * 5 + current) % (is_posted_first ? WAYS : WAYS - 1);
#define ARGUMENTS out, lengths[i], MPI_CHAR, 1, TAG, comm
    switch (way) {
    case 0: CHECK_OK(MPI_Isend(ARGUMENTS, &requests[i])); break;
    case 1: CHECK_OK(MPI_Issend(ARGUMENTS, &requests[i])); break;
    case 2: CHECK_OK(MPI_Ibsend(ARGUMENTS, &requests[i])); break;
    case 3: CHECK_OK(MPI_Bsend(ARGUMENTS)); break;
    case 4:
        CHECK_OK(MPI_Send_init(ARGUMENTS, &requests[i]));
        CHECK_OK(MPI_Start(&requests[i]));
        break;
    case 5:
        if (is_posted_first || lengths[i] <= 64) CHECK_OK(MPI_Send(ARGUMENTS));
        else CHECK_OK(MPI_Isend(ARGUMENTS, &requests[i]));
        break;
    default: CHECK_OK(MPI_Ssend(ARGUMENTS));
    }
}

static void receive_one(int i)
{
    int source = i % 3 ? 0 : MPI_ANY_SOURCE, tag = i % 4 ? TAG : MPI_ANY_TAG;
    CHECK_OK(MPI_Irecv(buffers[i], BIG, MPI_CHAR, source, tag, comm, &requests[i]));
}

/* Operation i is that of thread i % THREADS, or of a thread that follows from the round. */
static void *work(void *argument)
{
    int me = (int)(intptr_t)argument;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (turn < N && (turn + turn / 7 * current) % THREADS != me) pthread_cond_wait(&next, &lock);
        int i = turn;
        pthread_mutex_unlock(&lock);
        if (i >= N) return NULL;
        if (check_rank == 0) send_one(i);
        else receive_one(i);
        pthread_mutex_lock(&lock);
        turn = i + 1;
        pthread_cond_broadcast(&next);
        pthread_mutex_unlock(&lock);
    }
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    turn = 0;
    for (int t = 0; t < THREADS; t++) CHECK_INT(pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t), 0);
    for (int t = 0; t < THREADS; t++) CHECK_INT(pthread_join(threads[t], NULL), 0);
}

int main(int argc, char **argv)
{
    static const int borders[] = {4, 8, 60, 64, 248, 600, 5000, 20000, 70000, BIG};
    int provided, size = N * (BIG + MPI_BSEND_OVERHEAD);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    void *space = check_alloc((size_t)size);
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int i = 0; i < N; i++) buffers[i] = check_alloc(BIG);
    MPI_Comm copy;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Status statuses[N];
        comm = round % 2 ? copy : MPI_COMM_WORLD;
        current = round;
        is_posted_first = round % 3 == 0;
        state = (unsigned)round * 77 + 5;
        for (int i = 0; i < N; i++) lengths[i] = borders[roll(10)];
        for (int i = 0; i < N && check_rank == 0; i++) {
            int number = round * N + i;
            memcpy(buffers[i], &number, sizeof number);
            fill(buffers[i] + 4, (size_t)lengths[i] - 4, (unsigned)number);
        }
        /* The receives are there before the messages, or come while these do. */
        if (check_rank == 1 && is_posted_first) run_threads();
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0 || !is_posted_first) run_threads();
        CHECK_OK(MPI_Waitall(N, requests, statuses));
        for (int i = 0; i < N; i++) {
            if (check_rank == 1) {
                int number;
                memcpy(&number, buffers[i], sizeof number);
                CHECK_INT(number, round * N + i);
                CHECK_STATUS(statuses[i], 0, TAG, MPI_CHAR, lengths[i]);
                CHECK_FILL(buffers[i] + 4, lengths[i] - 4, round * N + i);
            } else if (requests[i] != MPI_REQUEST_NULL)
                CHECK_OK(MPI_Request_free(&requests[i]));
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Buffer_detach(&space, &size));
    free(space);
    for (int i = 0; i < N; i++) free(buffers[i]);
    return check_end();
}
