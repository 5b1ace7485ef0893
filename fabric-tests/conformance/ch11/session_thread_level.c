/* The thread level asked for a session is a word in its info; MPI_Session_get_info tells the one given. Sessions of several levels live
 * side by side, and threads open, use and close sessions of their own at the same time.
 *
 * Covers: 11.3.1, 11.3.3, 11.6.2
 * Ranks: 1 2
 */
#include "check.h"
#include "sessions.h"
#include <pthread.h>

#define THREADS 4

static const char *levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};

static int number_of(const char *name)
{
    for (int i = 0; i < 4; i++)
        if (strcmp(levels[i], name) == 0) return i;
    return -1;
}

static MPI_Session open_with(const char *level)
{
    MPI_Session session;
    MPI_Info info;
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Info_set(info, "thread_level", level), MPI_SUCCESS);
    CHECK_INT(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    return session;
}

static void *work(void *argument)
{
    long number = (long)argument;
    for (int turn = 0; turn < 10; turn++) {
        char tag[64];
        MPI_Session session = open_with(turn % 2 ? "MPI_THREAD_MULTIPLE" : "MPI_THREAD_SERIALIZED");
        snprintf(tag, sizeof tag, "thread %ld turn %d", number, turn);
        MPI_Comm comm = comm_of_set(session, "mpi://WORLD", tag);
        use_comm(comm);
        CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
        CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    }
    return NULL;
}

int main(void)
{
    MPI_Session sessions[4], plain;
    char value[64];
    for (int i = 3; i >= 0; i--) {
        sessions[i] = open_with(levels[i]);
        CHECK(session_info(sessions[i], "thread_level", value, sizeof value));
        CHECK(number_of(value) >= 0);
    }
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &plain), MPI_SUCCESS);
    CHECK(session_info(plain, "thread_level", value, sizeof value));
    int given = number_of(value);
    CHECK(given >= 0);
    MPI_Comm comm = comm_of_set(sessions[3], "mpi://WORLD", "of the main thread");
    check_by(comm);
    CHECK(session_info(sessions[3], "thread_level", value, sizeof value));
    CHECK_STR(value, "MPI_THREAD_MULTIPLE");
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < 20; i++) use_comm(comm);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    for (int i = 0; i < 4; i++) CHECK_INT(MPI_Session_finalize(&sessions[i]), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&plain), MPI_SUCCESS);
    return check_verdict();
}
