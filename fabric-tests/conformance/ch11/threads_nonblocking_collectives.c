/* MPI_THREAD_MULTIPLE: nonblocking collectives of threads with communicators of their own, many under way at once, between blocking ones and
 * persistent ones on the same communicator: intra- and intercommunicators, neighbourhoods, types with gaps, operations of the program. One
 * thread begins what another one completes.
 *
 * Covers: 6.12, 8.7, 6.8, 6.9.5, 11.6.1, 11.6.2, 3.7.5
 * Ranks: 1 2 3 4
 */
#include "check.h"
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 40, MOST = 16 };

static MPI_Comm comms[THREADS], rings[THREADS], pairs[THREADS];
static MPI_Datatype everySecond;
static MPI_Op larger;
static MPI_Request handed[THREADS];
static long given[THREADS], got[THREADS];
static pthread_barrier_t all;

static void maximum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        if (((long *)in)[i] > ((long *)inout)[i]) ((long *)inout)[i] = ((long *)in)[i];
}

/* Rank, thread and round in one number. */
static long value(int rank, int thread, int round)
{
    return rank + 100L * thread + 10000L * round;
}

static void in_one_group(MPI_Comm comm, int mine, int round)
{
    int size = check_size, counts[MOST], places[MOST], before = 0;
    long sum = 0, most = 0, part = 0, scattered = 0, own = value(check_rank, mine, round), list[MOST], gaps[4] = {0, -1, 0, -1};
    long exchanged[MOST], out[MOST], varied[MOST * 2];
    MPI_Request requests[9];
    for (int i = 0; i < size; i++) {
        counts[i] = i % 2 + 1;
        places[i] = before;
        before += counts[i];
        out[i] = value(check_rank, mine, round) + 1000 * i;
        list[i] = exchanged[i] = -1;
    }
    for (int i = 0; i < MOST * 2; i++) varied[i] = -1;
    int root = round % size;
    long two[2] = {own, own + 1};
    if (check_rank == root) gaps[0] = own, gaps[2] = own + 7;
    CHECK_OK(MPI_Ibarrier(comm, &requests[0]));
    CHECK_OK(MPI_Iallreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, comm, &requests[1]));
    CHECK_OK(MPI_Ireduce(&own, &most, 1, MPI_LONG, larger, root, comm, &requests[2]));
    CHECK_OK(MPI_Ibcast(gaps, 1, everySecond, root, comm, &requests[3]));
    CHECK_OK(MPI_Iallgather(&own, 1, MPI_LONG, list, 1, MPI_LONG, comm, &requests[4]));
    CHECK_OK(MPI_Ialltoall(out, 1, MPI_LONG, exchanged, 1, MPI_LONG, comm, &requests[5]));
    CHECK_OK(MPI_Iscan(&own, &part, 1, MPI_LONG, MPI_SUM, comm, &requests[6]));
    CHECK_OK(MPI_Iallgatherv(two, counts[check_rank], MPI_LONG, varied, counts, places, MPI_LONG, comm, &requests[7]));
    CHECK_OK(MPI_Iscatter(out, 1, MPI_LONG, &scattered, 1, MPI_LONG, root, comm, &requests[8]));
    /* A blocking one between the beginnings and the ends of others. */
    long blocking = 0;
    CHECK_OK(MPI_Allreduce(&own, &blocking, 1, MPI_LONG, MPI_MAX, comm));
    CHECK_INT(blocking, (int)value(size - 1, mine, round));
    if (round % 2) CHECK_OK(MPI_Waitall(9, requests, MPI_STATUSES_IGNORE));
    else
        for (int i = 8; i >= 0; i--) CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
    long expected = 0;
    for (int i = 0; i < size; i++) {
        expected += value(i, mine, round);
        if (i == check_rank) CHECK_INT(part, (int)expected);
        CHECK_INT(list[i], (int)value(i, mine, round));
        CHECK_INT(exchanged[i], (int)value(i, mine, round) + 1000 * check_rank);
        for (int k = 0; k < counts[i]; k++) CHECK_INT(varied[places[i] + k], (int)value(i, mine, round) + k);
    }
    CHECK_INT(sum, (int)expected);
    if (check_rank == root) CHECK_INT(most, (int)value(size - 1, mine, round));
    CHECK_INT(gaps[0], (int)value(root, mine, round));
    CHECK_INT(gaps[1], -1);
    CHECK_INT(gaps[2], (int)value(root, mine, round) + 7);
    CHECK_INT(gaps[3], -1);
    CHECK_INT(scattered, (int)value(root, mine, round) + 1000 * check_rank);
}

static void around(MPI_Comm ring, int mine, int round)
{
    long own = value(check_rank, mine, round), near[2] = {-1, -1}, last = (check_rank + check_size - 1) % check_size;
    MPI_Request request;
    CHECK_OK(MPI_Ineighbor_allgather(&own, 1, MPI_LONG, near, 1, MPI_LONG, ring, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(near[0], (int)value((int)last, mine, round));
    CHECK_INT(near[1], (int)value((check_rank + 1) % check_size, mine, round));
}

static void between(MPI_Comm pair, int mine, int round)
{
    if (pair == MPI_COMM_NULL) return;
    int others;
    CHECK_OK(MPI_Comm_remote_size(pair, &others));
    long own = value(check_rank, mine, round), sum = 0, expected = 0;
    MPI_Request request;
    CHECK_OK(MPI_Iallreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, pair, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < check_size; i++)
        if (i % 2 != check_rank % 2) expected += value(i, mine, round);
    CHECK_INT(sum, (int)expected);
}

static void *work(void *argument)
{
    int mine = (int)(long)argument;
    long kept = 0, own = 0;
    MPI_Request persistent;
    CHECK_OK(MPI_Allreduce_init(&own, &kept, 1, MPI_LONG, MPI_SUM, comms[mine], MPI_INFO_NULL, &persistent));
    for (int round = 0; round < ROUNDS; round++) {
        own = check_rank + round;
        CHECK_OK(MPI_Start(&persistent));
        in_one_group(comms[mine], mine, round);
        around(rings[mine], mine, round);
        between(pairs[mine], mine, round);
        CHECK_OK(MPI_Wait(&persistent, MPI_STATUS_IGNORE));
        CHECK_INT(kept, check_size * (check_size - 1) / 2 + check_size * round);
        /* Begun by the communicator's thread or by its neighbour, completed by the other one. */
        int begins = (mine + round % 2) % THREADS, ends = (mine + (round + 1) % 2) % THREADS;
        pthread_barrier_wait(&all);
        given[begins] = value(check_rank, begins, round);
        CHECK_OK(MPI_Iallreduce(&given[begins], &got[begins], 1, MPI_LONG, MPI_MIN, comms[begins], &handed[begins]));
        pthread_barrier_wait(&all);
        CHECK_OK(MPI_Wait(&handed[ends], MPI_STATUS_IGNORE));
        CHECK_INT(got[ends], (int)value(0, ends, round));
        pthread_barrier_wait(&all);
    }
    CHECK_OK(MPI_Request_free(&persistent));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, cycle = 1;
    pthread_t threads[THREADS];
    MPI_Comm half = MPI_COMM_NULL;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Op_create(maximum, 1, &larger));
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_LONG, &everySecond));
    CHECK_OK(MPI_Type_commit(&everySecond));
    if (check_size > 1) CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &half));
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &cycle, 0, &rings[i]));
        pairs[i] = MPI_COMM_NULL;
        if (check_size > 1) CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - check_rank % 2, i, &pairs[i]));
    }
    pthread_barrier_init(&all, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(MPI_Comm_free(&comms[i]));
        CHECK_OK(MPI_Comm_free(&rings[i]));
        if (pairs[i] != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&pairs[i]));
    }
    if (half != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&half));
    CHECK_OK(MPI_Type_free(&everySecond));
    CHECK_OK(MPI_Op_free(&larger));
    return check_end();
}
