/* Collective calls of three threads at once, on a communicator, on a window and on another communicator made from the same one, do not
 * disturb each other; a message from one thread reaches another of the same process.
 *
 * Covers: 11.6.1, 11.6.2
 * Ranks: 1 2 3
 */
#include "check.h"
#include <pthread.h>

#define ROUNDS 60

static MPI_Comm comm, copy;
static MPI_Win win;
static int *window;

static void *on_comm(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        int mine = check_rank + i, sum = 0;
        CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK_INT(sum, check_size * (check_size - 1) / 2 + i * check_size);
    }
    return NULL;
}

static void *on_copy(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        int token = check_rank == i % check_size ? i : -1;
        CHECK_OK(MPI_Bcast(&token, 1, MPI_INT, i % check_size, copy));
        CHECK_INT(token, i);
    }
    return NULL;
}

static void *on_window(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        int value = 1000 * check_rank + i;
        CHECK_OK(MPI_Win_fence(0, win));
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, (check_rank + 1) % check_size, 0, 1, MPI_INT, win));
        CHECK_OK(MPI_Win_fence(0, win));
        CHECK_INT(window[0], 1000 * ((check_rank + check_size - 1) % check_size) + i);
    }
    return NULL;
}

static void *send_to_self(void *nothing)
{
    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) CHECK_OK(MPI_Ssend(&i, 1, MPI_INT, 0, 9, MPI_COMM_SELF));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    if (provided < MPI_THREAD_MULTIPLE) return check_end();
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_dup(comm, &copy));
    CHECK_OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &window, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    void *(*jobs[])(void *) = {on_comm, on_copy, on_window, send_to_self};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK_INT(pthread_create(&threads[i], NULL, jobs[i], NULL), 0);
    for (int i = 0; i < ROUNDS; i++) {
        int got = -1;
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        CHECK_INT(got, i);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
