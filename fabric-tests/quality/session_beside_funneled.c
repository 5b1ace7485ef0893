/* Below MPI_THREAD_MULTIPLE calls take no locks, so a thread that opens a session beside a call that runs would meet it unprotected: it is
 * refused, with the remedy, and nothing else changes. The thread that makes the calls may open sessions, whatever their level; from then on
 * every thread may.
 *
 * Covers: 11.3.1, 11.6.2
 * Ranks: 1 2
 */
#include "check.h"
#include "told.h"
#include <pthread.h>

static void *refused(void *argument)
{
    MPI_Session session = MPI_SESSION_NULL;
    (void)argument;
    for (int i = 0; i < 100; i++) {
        TOLD(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_ERR_OTHER, "MPI_THREAD_MULTIPLE",
             "the thread that opened it");
        CHECK(session == MPI_SESSION_NULL);
    }
    return NULL;
}

static void *welcome(void *argument)
{
    MPI_Session session;
    (void)argument;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Session_finalize(&session));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t thread;
    MPI_Session session;
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    check_world();
    CHECK_INT(provided, MPI_THREAD_FUNNELED);
    pthread_create(&thread, NULL, refused, NULL);
    /* Meanwhile this thread communicates as it may. */
    for (int i = 0; i < 2000; i++) {
        int mine = i, other = -1, to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
        CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, to, 5, &other, 1, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(other, i);
    }
    pthread_join(thread, NULL);
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    pthread_create(&thread, NULL, welcome, NULL);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    pthread_join(thread, NULL);
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
