/* At MPI_THREAD_SERIALIZED threads take turns, and each may be the one that calls next; MPI_Session_init is thread safe beside all of
 * them, so a thread opens sessions while another is in a call.
 *
 * Covers: 11.2.1, 11.3.1, 11.6.1, 11.6.2
 * Ranks: 1 2
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, TURNS = 600, SESSIONS = 40 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* Each thread sends to its own counterpart; nobody holds the turn while it waits. */
static void *exchange(void *argument)
{
    int number = (int)(long)argument, to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < TURNS; i++) {
        int mine = number * TURNS + i, other = -1, done = 0;
        MPI_Request requests[2];
        pthread_mutex_lock(&turn);
        CHECK_OK(MPI_Irecv(&other, 1, MPI_INT, from, number, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Isend(&mine, 1, MPI_INT, to, number, MPI_COMM_WORLD, &requests[1]));
        pthread_mutex_unlock(&turn);
        while (!done) {
            pthread_mutex_lock(&turn);
            CHECK_OK(MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE));
            pthread_mutex_unlock(&turn);
        }
        CHECK_INT(other, mine);
    }
    return NULL;
}

static void *open_sessions(void *argument)
{
    (void)argument;
    for (int i = 0; i < SESSIONS; i++) {
        MPI_Session session = MPI_SESSION_NULL;
        MPI_Group group;
        int size = 0;
        CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
        CHECK(session != MPI_SESSION_NULL);
        pthread_mutex_lock(&turn);
        CHECK_INT(MPI_Group_from_session_pset(session, "mpi://WORLD", &group), MPI_SUCCESS);
        CHECK_INT(MPI_Group_size(group, &size), MPI_SUCCESS);
        CHECK_INT(size, check_size);
        CHECK_INT(MPI_Group_free(&group), MPI_SUCCESS);
        CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
        pthread_mutex_unlock(&turn);
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
    /* First the main thread alone, for long. */
    exchange((void *)(long)THREADS);
    for (long i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, exchange, (void *)i), 0);
    CHECK_INT(pthread_create(&threads[THREADS], NULL, open_sessions, NULL), 0);
    for (int i = 0; i <= THREADS; i++) pthread_join(threads[i], NULL);
    return check_end();
}
