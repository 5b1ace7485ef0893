/* The main thread of a program with MPI_THREAD_FUNNELED is blocked in a call of the World Model while another thread opens sessions of
 * MPI_THREAD_MULTIPLE, makes communicators from them, talks and closes them: MPI_Session_init is always thread safe, levels are those of
 * sessions, and what blocks one thread blocks no other. Every second rank is blocked, each in another call, until its neighbour hears from
 * its own second thread that the sessions are over. Where a session gets a lower level than it asks for, it is only opened and closed.
 *
 * Covers: 11.3, 11.3.1, 11.6.1, 11.6.2
 * Ranks: 2 16
 * Timeout: 120
 */
#include "check.h"
#include "sessions.h"
#include <pthread.h>
#include <semaphore.h>

enum { KINDS = 8, WHILE_BLOCKED = 4, AFTERWARDS = 6, LARGE = 1 << 18, EXCHANGES = 200 };

static sem_t first_are_over;

static void *second_thread(void *argument)
{
    (void)argument;
    /* The first one is still looking, or gives its core away, or sleeps. */
    usleep(check_rank % 4 * 1500);
    for (int i = 0; i < WHILE_BLOCKED; i++) use_session(i, 1);
    sem_post(&first_are_over);
    for (int i = 0; i < AFTERWARDS; i++) use_session(WHILE_BLOCKED + i, 1);
    return NULL;
}

static void until_first_are_over(void)
{
    while (sem_wait(&first_are_over) != 0) {}
}

/* One of the two is blocked until the other calls, too. */
static void meet(int kind, int blocked, int other, MPI_Comm pair)
{
    static int numbers[LARGE];
    MPI_Request requests[2];
    MPI_Comm made;
    int index = -1, sum = 0;
    if (!blocked) until_first_are_over();
    switch (kind) {
    case 0:
        if (blocked) CHECK_INT(MPI_Recv(numbers, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        break;
    case 1:
        if (!blocked) break;
        CHECK_INT(MPI_Irecv(numbers, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
        CHECK_INT(MPI_Wait(&requests[0], MPI_STATUS_IGNORE), MPI_SUCCESS);
        break;
    case 2:
        if (!blocked) break;
        CHECK_INT(MPI_Probe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_INT(MPI_Recv(numbers, 1, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        break;
    case 3:
        numbers[0] = other;
        if (blocked)
            CHECK_INT(MPI_Ssend(numbers, 1, MPI_INT, other, 2, MPI_COMM_WORLD), MPI_SUCCESS);
        else
            CHECK_INT(MPI_Recv(numbers, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_INT(numbers[0], blocked ? other : check_rank);
        return;
    case 4: CHECK_INT(MPI_Barrier(pair), MPI_SUCCESS); return;
    case 5:
        if (blocked) CHECK_INT(MPI_Recv(numbers, LARGE, MPI_INT, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
        break;
    case 6:
        if (!blocked) break;
        CHECK_INT(MPI_Irecv(numbers, 1, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
        CHECK_INT(MPI_Irecv(&sum, 1, MPI_INT, other, 99, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
        CHECK_INT(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_INT(index, 0);
        CHECK_INT(MPI_Cancel(&requests[1]), MPI_SUCCESS);
        CHECK_INT(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_SUCCESS);
        break;
    default:
        CHECK_INT(MPI_Comm_dup(pair, &made), MPI_SUCCESS);
        CHECK_INT(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, made), MPI_SUCCESS);
        CHECK_INT(sum, check_rank + other);
        CHECK_INT(MPI_Comm_free(&made), MPI_SUCCESS);
        return;
    }
    if (blocked) {
        CHECK_INT(numbers[kind == 5 ? LARGE - 1 : 0], other);
        return;
    }
    for (int i = 0; i < LARGE; i++) numbers[i] = check_rank;
    CHECK_INT(MPI_Send(numbers, kind == 5 ? LARGE : 1, MPI_INT, other, 1, MPI_COMM_WORLD), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    int provided = -1;
    pthread_t second;
    MPI_Comm pair;
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    check_world();
    CHECK(provided >= MPI_THREAD_FUNNELED);
    CHECK_INT(check_size % 2, 0);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank / 2, check_rank, &pair));
    CHECK_OK(MPI_Barrier(pair));
    sem_init(&first_are_over, 0, 0);
    CHECK_INT(pthread_create(&second, NULL, second_thread, NULL), 0);
    /* Other ways to be blocked with two ranks: the first argument. */
    int kind = (check_rank / 2 + (argc > 1 ? atoi(argv[1]) : 0)) % KINDS, other = check_rank ^ 1;
    meet(kind, check_rank % 2 == 0, other, pair);
    /* Beside the sessions that follow this thread communicates as before. */
    for (int i = 0; i < EXCHANGES; i++) {
        int mine = i, theirs = -1;
        CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, other, 5, &theirs, 1, MPI_INT, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(theirs, i);
        if (i % 50 == 0) CHECK_OK(MPI_Barrier(pair));
    }
    pthread_join(second, NULL);
    CHECK_OK(MPI_Comm_free(&pair));
    return check_end();
}
