/* The main thread of a program with MPI_THREAD_FUNNELED never stops to communicate while another thread opens sessions of
 * MPI_THREAD_MULTIPLE, makes communicators from them, talks and closes them, and a third one makes the calls that any thread may make at any
 * time, right and wrong ones. Where a session gets a lower level than it asks for, it is only opened and closed.
 *
 * Covers: 11.3, 11.3.1, 11.4.1, 11.6, 11.6.2
 * Ranks: 1 2 4
 * Timeout: 120
 */
#include "check.h"
#include "sessions.h"
#include <pthread.h>
#include <stdatomic.h>

enum { ROUNDS = 10, TURNS = 800, LARGE = 40000 };

static atomic_int done;

static void *open_sessions(void *argument)
{
    (void)argument;
    usleep(check_rank * 300);
    for (int i = 0; i < ROUNDS; i++) use_session(i, 5);
    return NULL;
}

static void *call_at_any_time(void *argument)
{
    (void)argument;
    usleep(100);
    do {
        MPI_Info info;
        char text[MPI_MAX_ERROR_STRING], value[64];
        int flag = 0, length = sizeof value;
        CHECK_INT(MPI_Info_create_env(0, NULL, &info), MPI_SUCCESS);
        CHECK_INT(MPI_Info_set(info, "key", "value"), MPI_SUCCESS);
        CHECK_INT(MPI_Info_get_string(info, "key", &length, value, &flag), MPI_SUCCESS);
        CHECK(flag && strcmp(value, "value") == 0);
        CHECK(MPI_Info_delete(info, "no such key") != MPI_SUCCESS);
        CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
        CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
        CHECK_INT(flag, 1);
        CHECK_INT(MPI_Error_string(MPI_ERR_TAG, text, &length), MPI_SUCCESS);
    } while (!atomic_load(&done));
    return NULL;
}

/* What the main thread does in one turn, with its neighbours in the ring. */
static void turn(int i)
{
    static int out[LARGE], in[LARGE];
    int to = (check_rank + 1) % check_size, from = (check_rank + check_size - 1) % check_size;
    int count = i % 40 == 7 ? LARGE : 1 + i % 5 * 30, sum = -1;
    MPI_Request requests[2];
    out[0] = i, out[count - 1] = i, in[0] = in[count - 1] = -1;
    if (i % 2) {
        CHECK_INT(MPI_Sendrecv(out, count, MPI_INT, to, 5, in, count, MPI_INT, from, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_SUCCESS);
    } else {
        CHECK_INT(MPI_Irecv(in, count, MPI_INT, from, 5, MPI_COMM_WORLD, &requests[0]), MPI_SUCCESS);
        CHECK_INT(MPI_Isend(out, count, MPI_INT, to, 5, MPI_COMM_WORLD, &requests[1]), MPI_SUCCESS);
        CHECK_INT(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), MPI_SUCCESS);
    }
    CHECK_INT(in[0], i);
    CHECK_INT(in[count - 1], i);
    if (i % 16 == 0) {
        CHECK_INT(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
        CHECK_INT(sum, check_size * (check_size - 1) / 2);
    }
    if (i % 200 == 0) {
        MPI_Comm comm;
        CHECK_INT(MPI_Comm_dup(MPI_COMM_WORLD, &comm), MPI_SUCCESS);
        use_comm(comm);
        CHECK_INT(MPI_Comm_free(&comm), MPI_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    int provided = -1;
    pthread_t threads[2];
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    check_world();
    CHECK(provided >= MPI_THREAD_FUNNELED);
    /* Errors of calls without an object are those of MPI_COMM_SELF. */
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_INT(pthread_create(&threads[0], NULL, open_sessions, NULL), 0);
    CHECK_INT(pthread_create(&threads[1], NULL, call_at_any_time, NULL), 0);
    for (int i = 0; i < TURNS; i++) turn(i);
    pthread_join(threads[0], NULL);
    atomic_store(&done, 1);
    pthread_join(threads[1], NULL);
    return check_end();
}
