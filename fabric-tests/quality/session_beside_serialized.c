/* A session of MPI_THREAD_MULTIPLE beside a World Model of MPI_THREAD_SERIALIZED: a thread opens it, makes a communicator of it, works
 * with it and ends it, all while the main thread is in calls of its own. The standard leaves open whether levels of different
 * components may be combined like this; here they may.
 *
 * Covers: 11.3.1, 11.6.2
 * Ranks: 1 2
 */
#include "check.h"
#include <pthread.h>

enum { EXCHANGES = 20000, SESSIONS = 12 };

static int over;

static void *component(void *argument)
{
    (void)argument;
    for (int i = 0; i < SESSIONS; i++) {
        MPI_Session session;
        MPI_Group group;
        MPI_Comm comm;
        char tag[32];
        int one = 1, sum = 0;
        snprintf(tag, sizeof tag, "session %d", i);
        CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
        CHECK_INT(MPI_Group_from_session_pset(session, "mpi://WORLD", &group), MPI_SUCCESS);
        CHECK_INT(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_SUCCESS);
        CHECK_INT(MPI_Group_free(&group), MPI_SUCCESS);
        for (int turn = 0; turn < 50; turn++) {
            CHECK_INT(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
            CHECK_INT(sum, check_size);
        }
        CHECK_INT(MPI_Comm_free(&comm), MPI_SUCCESS);
        CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = 0, all = 0;
    pthread_t thread;
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided));
    check_world();
    CHECK_INT(provided, MPI_THREAD_SERIALIZED);
    CHECK_INT(pthread_create(&thread, NULL, component, NULL), 0);
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < EXCHANGES || !all; i++) {
        int mine = i, other = -1;
        CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, to, 5, &other, 1, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(other, i);
        /* All stop after the same exchange. */
        if (i >= EXCHANGES - 1 && i % 100 == 99) {
            int mine_over = __atomic_load_n(&over, __ATOMIC_ACQUIRE);
            CHECK_OK(MPI_Allreduce(&mine_over, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        }
    }
    pthread_join(thread, NULL);
    return check_end();
}
