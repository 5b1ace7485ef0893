/* A thread beside the one that makes all calls gets what it asks for: sessions of every level, also where the other one has
 * MPI_THREAD_SINGLE in the World Model, or in a session of its own; and from then on every thread may open some.
 *
 * Covers: 11.3.1, 11.6.2
 * Ranks: 1 2
 */
#include "check.h"
#include "ch11/sessions.h"
#include <pthread.h>

static MPI_Session open_at(const char *level)
{
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info;
    char granted[64] = "";
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Info_set(info, "thread_level", level), MPI_SUCCESS);
    CHECK_INT(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK(session_info(session, "thread_level", granted, sizeof granted));
    CHECK(strcmp(granted, level) == 0);
    return session;
}

static void talk(const char *level, const char *who, int times)
{
    for (int i = 0; i < times; i++) {
        char tag[64];
        MPI_Session session = open_at(level);
        snprintf(tag, sizeof tag, "%s %d", who, i);
        MPI_Comm comm = comm_of_set(session, "mpi://WORLD", tag);
        for (int use = 0; use < 8; use++) use_comm(comm);
        CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
        CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    }
}

static void *single(void *argument)
{
    (void)argument;
    talk("MPI_THREAD_SINGLE", "single", 5);
    return NULL;
}

static void *multiple(void *argument)
{
    (void)argument;
    talk("MPI_THREAD_MULTIPLE", "multiple", 5);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t one, other;
    /* Before the World Model this thread has a session for itself; a thread beside it opens its own. */
    MPI_Session session = open_at("MPI_THREAD_SINGLE");
    MPI_Comm comm = comm_of_set(session, "mpi://WORLD", "main");
    check_by(comm);
    CHECK_INT(pthread_create(&one, NULL, single, NULL), 0);
    for (int i = 0; i < 120; i++) use_comm(comm);
    CHECK_OK(MPI_Init(&argc, &argv));
    CHECK_INT(pthread_create(&other, NULL, multiple, NULL), 0);
    for (int i = 0; i < 120; i++) {
        use_comm(comm);
        use_comm(MPI_COMM_WORLD);
    }
    pthread_join(one, NULL);
    pthread_join(other, NULL);
    CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    return check_end();
}
