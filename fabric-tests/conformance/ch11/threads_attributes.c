/* MPI_THREAD_MULTIPLE: threads set, ask, delete and copy attributes of objects of their own, and of shared ones under keys of their own.
 * Functions of attributes run without any lock of the library: they call MPI themselves, also on attributes, and wait until another thread
 * has set, asked and deleted attributes of every kind of object.
 *
 * Covers: 7.7.2, 7.7.3, 7.7.4, 11.6.1
 * Ranks: 1 2
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 4, ROUNDS = 200 };

static MPI_Comm comms[THREADS];
static MPI_Datatype types[THREADS];
static MPI_Win wins[THREADS];
static pthread_barrier_t all;
static int helped, wanted, copied[THREADS], deleted[THREADS];

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    int size = 0;
    (void)key;
    CHECK_OK(MPI_Comm_size(comm, &size));
    CHECK_INT(size, 1);
    ++*(int *)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *value, void *extra)
{
    void *found = NULL;
    int flag = 0;
    /* Still there while it is being deleted, or not any more: but the question is answered. */
    CHECK_OK(MPI_Comm_get_attr(comm, key, &found, &flag));
    CHECK(!flag || found == value);
    ++*(int *)extra;
    return MPI_SUCCESS;
}

static int delete_of_type(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

static int delete_of_win(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key, (void)value, (void)extra;
    return MPI_SUCCESS;
}

/* Sets, asks and deletes attributes of everything that thread `mine` has. */
static void every_kind(int mine, int comm_key, int type_key, int win_key, int *value)
{
    int *found = NULL, flag = 0;
    CHECK_OK(MPI_Comm_set_attr(comms[mine], comm_key, value));
    CHECK_OK(MPI_Type_set_attr(types[mine], type_key, value));
    CHECK_OK(MPI_Win_set_attr(wins[mine], win_key, value));
    CHECK_OK(MPI_Comm_get_attr(comms[mine], comm_key, &found, &flag));
    CHECK(flag && found == value);
    CHECK_OK(MPI_Type_get_attr(types[mine], type_key, &found, &flag));
    CHECK(flag && found == value);
    CHECK_OK(MPI_Win_get_attr(wins[mine], win_key, &found, &flag));
    CHECK(flag && found == value);
    CHECK_OK(MPI_Win_get_attr(wins[mine], MPI_WIN_DISP_UNIT, &found, &flag));
    CHECK(flag && *found == 1);
    CHECK_OK(MPI_Type_delete_attr(types[mine], type_key));
    CHECK_OK(MPI_Win_delete_attr(wins[mine], win_key));
    CHECK_OK(MPI_Comm_delete_attr(comms[mine], comm_key));
    CHECK_OK(MPI_Win_get_attr(wins[mine], win_key, &found, &flag));
    CHECK(!flag);
}

/* Waits inside a function of an attribute until another thread has done all its calls. */
static int wait_for_the_other(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    __atomic_store_n(&wanted, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&helped, __ATOMIC_ACQUIRE)) sched_yield();
    return MPI_SUCCESS;
}

static void *work(void *argument)
{
    int mine = (int)(size_t)argument, comm_key, type_key, win_key, shared_key, value = mine, waiting_key;
    CHECK_OK(MPI_Comm_create_keyval(copy, delete, &comm_key, &deleted[mine]));
    CHECK_OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, delete_of_type, &type_key, NULL));
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_of_win, &win_key, NULL));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &shared_key, NULL));
    pthread_barrier_wait(&all);
    if (mine == 0) {
        CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, wait_for_the_other, &waiting_key, NULL));
        CHECK_OK(MPI_Comm_set_attr(comms[0], waiting_key, &value));
        CHECK_OK(MPI_Comm_delete_attr(comms[0], waiting_key));
        CHECK_OK(MPI_Comm_free_keyval(&waiting_key));
    } else if (mine == 1) {
        while (!__atomic_load_n(&wanted, __ATOMIC_ACQUIRE)) sched_yield();
        every_kind(mine, comm_key, type_key, win_key, &value);
        __atomic_store_n(&helped, 1, __ATOMIC_RELEASE);
    }
    pthread_barrier_wait(&all);
    for (int round = 0; round < ROUNDS; round++) {
        int *found = NULL, flag = 0;
        every_kind(mine, comm_key, type_key, win_key, &value);
        CHECK_OK(MPI_Comm_set_attr(MPI_COMM_WORLD, shared_key, &value));
        CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, shared_key, &found, &flag));
        CHECK(flag && found == &value);
        if (round % 20 == 0) {
            MPI_Datatype made;
            CHECK_OK(MPI_Type_set_attr(types[mine], type_key, &value));
            CHECK_OK(MPI_Type_dup(types[mine], &made));
            CHECK_OK(MPI_Type_get_attr(made, type_key, &found, &flag));
            CHECK(!flag);
            CHECK_OK(MPI_Type_free(&made));
            CHECK_OK(MPI_Type_delete_attr(types[mine], type_key));
        }
    }
    CHECK_OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, shared_key));
    CHECK_INT(deleted[mine], ROUNDS + (mine == 1));
    CHECK_OK(MPI_Comm_free_keyval(&comm_key));
    CHECK_OK(MPI_Comm_free_keyval(&shared_key));
    CHECK_OK(MPI_Type_free_keyval(&type_key));
    CHECK_OK(MPI_Win_free_keyval(&win_key));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, i;
    static char memory[THREADS][64];
    pthread_t threads[THREADS];
    MPI_Comm made;
    int key, *found, flag;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    for (i = 0; i < THREADS; i++) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &comms[i]));
        CHECK_OK(MPI_Type_contiguous(i + 1, MPI_INT, &types[i]));
        CHECK_OK(MPI_Win_create(memory[i], 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &wins[i]));
    }
    CHECK(!pthread_barrier_init(&all, NULL, THREADS));
    for (i = 0; i < THREADS; i++) CHECK(!pthread_create(&threads[i], NULL, work, (void *)(size_t)i));
    for (i = 0; i < THREADS; i++) CHECK(!pthread_join(threads[i], NULL));
    /* Copied with the communicator. */
    CHECK_OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, &copied[0]));
    CHECK_OK(MPI_Comm_set_attr(comms[0], key, &copied[1]));
    CHECK_OK(MPI_Comm_dup(comms[0], &made));
    CHECK_OK(MPI_Comm_get_attr(made, key, &found, &flag));
    CHECK(flag && found == &copied[1]);
    CHECK_INT(copied[0], 1);
    CHECK_OK(MPI_Comm_free_keyval(&key));
    CHECK_OK(MPI_Comm_free(&made));
    for (i = 0; i < THREADS; i++) {
        CHECK_OK(MPI_Comm_free(&comms[i]));
        CHECK_OK(MPI_Type_free(&types[i]));
        CHECK_OK(MPI_Win_free(&wins[i]));
    }
    CHECK(!pthread_barrier_destroy(&all));
    return check_end();
}
