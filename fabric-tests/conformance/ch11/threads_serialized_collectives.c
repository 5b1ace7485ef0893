/* At MPI_THREAD_SERIALIZED threads take turns with blocking collectives on the same communicators: many calls in a row by one thread,
 * then one each, with other threads at every rank, while a further thread opens sessions. Before each stretch a receive is
 * posted by one thread which another one completes after it.
 *
 * Covers: 6.1, 11.3.1, 11.6.1, 11.6.2
 * Ranks: 2 3 5
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, STRETCHES = 36, LONGEST = 120, KINDS = 8, MOST = 6000, RANKS = 8, SESSIONS = 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int stretch, calls;
static MPI_Comm comms[2];
static MPI_Request pending;
static int told = -1;
static int out[MOST * RANKS], in[MOST * RANKS];

static int value(int call, int rank, int index)
{
    return call * 7 + rank * 1000 + index;
}

static void contribute(int call, int count)
{
    for (int i = 0; i < count; i++) {
        out[i] = value(call, check_rank, i);
        in[i] = -1;
    }
}

/* The sum of an element over all ranks. */
static int sum(int call, int index)
{
    int all = 0;
    for (int rank = 0; rank < check_size; rank++)
        all += value(call, rank, index);
    return all;
}

static void check_sums(int call, int from, int count)
{
    int wrong = 0;
    for (int i = 0; i < count; i++)
        wrong += in[i] != sum(call, from + i);
    CHECK_INT(wrong, 0);
}

/* One collective, the same at all ranks by its number. */
static void one_call(int call)
{
    static const int counts[] = {1, 2, 30, 700, MOST};
    int count = call % 97 == 0 ? counts[4] : counts[call % 4], root = call % check_size, n = check_size, wrong = 0;
    MPI_Comm comm = comms[call / KINDS % 2];
    contribute(call, count * n);
    switch (call % KINDS) {
    case 0:
        CHECK_OK(MPI_Barrier(comm));
        break;
    case 1:
        CHECK_OK(MPI_Bcast(out, count, MPI_INT, root, comm));
        for (int i = 0; i < count; i++)
            wrong += out[i] != value(call, root, i);
        break;
    case 2:
        CHECK_OK(MPI_Reduce(out, in, count, MPI_INT, MPI_SUM, root, comm));
        if (check_rank == root)
            check_sums(call, 0, count);
        break;
    case 3:
        CHECK_OK(MPI_Allreduce(out, in, count, MPI_INT, MPI_SUM, comm));
        check_sums(call, 0, count);
        break;
    case 4:
        CHECK_OK(MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm));
        for (int i = 0; i < count * n; i++)
            wrong += in[i] != value(call, i / count, i % count);
        break;
    case 5:
        CHECK_OK(MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm));
        for (int i = 0; i < count * n; i++)
            wrong += in[i] != value(call, i / count, check_rank * count + i % count);
        break;
    case 6:
        CHECK_OK(MPI_Reduce_scatter_block(out, in, count, MPI_INT, MPI_SUM, comm));
        check_sums(call, check_rank * count, count);
        break;
    default: {
        int each[RANKS];
        for (int rank = 0; rank < n; rank++)
            each[rank] = count;
        CHECK_OK(MPI_Reduce_scatter(out, in, each, MPI_INT, MPI_SUM, comm));
        check_sums(call, check_rank * count, count);
    }
    }
    CHECK_INT(wrong, 0);
}

/* Long stretches by turns with single calls. */
static int length(int of)
{
    return of % 3 == 2 ? 1 : LONGEST - of;
}

static void *take_turns(void *argument)
{
    int number = (int)(long)argument;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (stretch < STRETCHES && (stretch + check_rank) % THREADS != number)
            pthread_cond_wait(&changed, &lock);
        if (stretch == STRETCHES) {
            pthread_mutex_unlock(&lock);
            return NULL;
        }
        /* What the thread before has posted, and for which our own message is missing. */
        int mine = stretch, to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
        CHECK_OK(MPI_Send(&mine, 1, MPI_INT, to, 5, MPI_COMM_WORLD));
        for (int i = 0; i < length(stretch); i++)
            one_call(calls++);
        CHECK_OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
        CHECK_INT(told, stretch);
        stretch++;
        if (stretch < STRETCHES)
            CHECK_OK(MPI_Irecv(&told, 1, MPI_INT, from, 5, MPI_COMM_WORLD, &pending));
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
}

/* MPI_Session_init alone may be called beside the calls of others. */
static void *open_sessions(void *argument)
{
    (void)argument;
    for (int i = 0; i < SESSIONS; i++) {
        MPI_Session session = MPI_SESSION_NULL;
        CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
        pthread_mutex_lock(&lock);
        CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
        pthread_mutex_unlock(&lock);
        usleep(300);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = 0;
    pthread_t threads[THREADS + 1];
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided));
    check_world();
    CHECK(provided >= MPI_THREAD_SERIALIZED);
    comms[0] = MPI_COMM_WORLD;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    CHECK_OK(MPI_Irecv(&told, 1, MPI_INT, (check_rank + check_size - 1) % check_size, 5, MPI_COMM_WORLD, &pending));
    for (int i = 0; i <= THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, i < THREADS ? take_turns : open_sessions, (void *)(long)i), 0);
    for (int i = 0; i <= THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(stretch, STRETCHES);
    CHECK_OK(MPI_Comm_free(&comms[1]));
    return check_end();
}
