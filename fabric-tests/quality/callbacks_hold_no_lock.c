/* While a function of the program runs inside an MPI call, other threads make theirs: every kind of callback waits here until another
 * thread has communicated, looked at attributes and made objects. No lock may be held around any of them.
 *
 * Covers: 6.9.5, 7.7, 9.3, 11.6.1, 13.2
 * Ranks: 1 2
 * Timeout: 60
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>

static int asked, answered, over, calls, keyval = MPI_KEYVAL_INVALID;
static MPI_Comm other;

/* What the other thread does for every callback: calls on lane 0 and on a communicator of its own, local ones, ones that make objects. */
static void make_calls(void)
{
    int flag, value = 1, got = 0, *attribute;
    MPI_Request request;
    MPI_Datatype pair;
    MPI_Group group;
    MPI_Comm comms[2] = {MPI_COMM_SELF, other};
    for (int c = 0; c < 2; c++) {
        CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, 99, comms[c], &flag, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, 3, comms[c], &request));
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, 0, 3, comms[c]));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Barrier(comms[c]));
    }
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &attribute, &flag));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Type_free(&pair));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    CHECK_OK(MPI_Group_free(&group));
}

static void *answer(void *unused)
{
    (void)unused;
    for (;;) {
        int now = __atomic_load_n(&asked, __ATOMIC_ACQUIRE);
        if (now != answered) {
            make_calls();
            __atomic_store_n(&answered, now, __ATOMIC_RELEASE);
        } else if (__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
            return NULL;
        }
        sched_yield();
    }
}

/* Inside a callback. */
static void let_the_other_work(void)
{
    int now = asked + 1;
    calls++;
    __atomic_store_n(&asked, now, __ATOMIC_RELEASE);
    while (__atomic_load_n(&answered, __ATOMIC_ACQUIRE) != now) sched_yield();
}

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) ((int *)inout)[i] += ((int *)in)[i];
    let_the_other_work();
}

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key, (void)extra;
    *(void **)out = in;
    *flag = 1;
    let_the_other_work();
    return MPI_SUCCESS;
}

static int drop(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    let_the_other_work();
    return MPI_SUCCESS;
}

static int type_copy(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
    (void)type;
    return copy(MPI_COMM_NULL, key, extra, in, out, flag);
}

static int type_drop(MPI_Datatype type, int key, void *value, void *extra)
{
    (void)type;
    return drop(MPI_COMM_NULL, key, value, extra);
}

static int win_drop(MPI_Win win, int key, void *value, void *extra)
{
    (void)win;
    return drop(MPI_COMM_NULL, key, value, extra);
}

static void handle_comm(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    let_the_other_work();
}

static void handle_win(MPI_Win *win, int *code, ...)
{
    (void)win, (void)code;
    let_the_other_work();
}

static void handle_session(MPI_Session *session, int *code, ...)
{
    (void)session, (void)code;
    let_the_other_work();
}

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    let_the_other_work();
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    let_the_other_work();
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra, (void)complete;
    let_the_other_work();
    return MPI_SUCCESS;
}

static void expect(const char *what, int before)
{
    if (calls == before) CHECK_FAIL("%s: the callback was not called", what);
}

static void operations(MPI_Comm comm)
{
    MPI_Op op;
    MPI_Request request;
    int in = 1, out = 0, before = calls;
    CHECK_OK(MPI_Op_create(add, 0, &op));
    CHECK_OK(MPI_Reduce_local(&in, &out, 1, MPI_INT, op));
    expect("MPI_Reduce_local", before);
    before = calls;
    CHECK_OK(MPI_Allreduce(&in, &out, 1, MPI_INT, op, comm));
    CHECK_INT(out, check_size);
    CHECK_OK(MPI_Scan(&in, &out, 1, MPI_INT, op, comm));
    CHECK_OK(MPI_Iallreduce(&in, &out, 1, MPI_INT, op, comm, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(out, check_size);
    CHECK_OK(MPI_Ireduce_scatter_block(MPI_IN_PLACE, &out, 0, MPI_INT, op, comm, &request));
    for (int done = 0; !done;) CHECK_OK(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (check_size > 1) expect("collective reductions", before);
    CHECK_OK(MPI_Op_free(&op));
}

static void attributes(MPI_Comm comm)
{
    MPI_Comm made;
    MPI_Datatype type, second;
    MPI_Win win;
    MPI_Request request;
    int key, before = calls, value = 0;
    CHECK_OK(MPI_Comm_create_keyval(copy, drop, &keyval, NULL));
    CHECK_OK(MPI_Comm_set_attr(comm, keyval, &value));
    CHECK_OK(MPI_Comm_dup(comm, &made));
    CHECK_INT(calls, before + 1);
    CHECK_OK(MPI_Comm_free(&made));
    CHECK_INT(calls, before + 2);
    CHECK_OK(MPI_Comm_idup(comm, &made, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_set_attr(made, keyval, &before));
    CHECK_OK(MPI_Comm_delete_attr(made, keyval));
    CHECK_OK(MPI_Comm_free(&made));
    CHECK_OK(MPI_Comm_delete_attr(comm, keyval));
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    CHECK_INT(calls, before + 6);

    before = calls;
    CHECK_OK(MPI_Type_create_keyval(type_copy, type_drop, &key, NULL));
    CHECK_OK(MPI_Type_dup(MPI_INT, &type));
    CHECK_OK(MPI_Type_set_attr(type, key, &value));
    CHECK_OK(MPI_Type_dup(type, &second));
    CHECK_OK(MPI_Type_free(&second));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_free_keyval(&key));
    CHECK_INT(calls, before + 3);

    before = calls;
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, win_drop, &key, NULL));
    CHECK_OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, &win));
    CHECK_OK(MPI_Win_set_attr(win, key, &value));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Win_free_keyval(&key));
    CHECK_INT(calls, before + 1);
}

static void error_handlers(MPI_Comm comm)
{
    MPI_Errhandler handler;
    MPI_Win win;
    MPI_Session session;
    int before = calls, value = 0;
    CHECK_OK(MPI_Comm_create_errhandler(handle_comm, &handler));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    CHECK_CLASS(MPI_Send(&value, 1, MPI_INT, check_size + 5, 0, comm), MPI_ERR_RANK);
    CHECK_OK(MPI_Comm_call_errhandler(comm, MPI_ERR_OTHER));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_INT(calls, before + 2);
    CHECK_OK(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, &win));
    CHECK_OK(MPI_Win_create_errhandler(handle_win, &handler));
    CHECK_OK(MPI_Win_set_errhandler(win, handler));
    CHECK_OK(MPI_Win_call_errhandler(win, MPI_ERR_OTHER));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_INT(calls, before + 3);
    CHECK_OK(MPI_Session_create_errhandler(handle_session, &handler));
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, handler, &session));
    CHECK_OK(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
    CHECK_OK(MPI_Session_finalize(&session));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_INT(calls, before + 4);
}

static void generalized(void)
{
    MPI_Request request;
    MPI_Status status;
    int before = calls, flag = 0;
    CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_INT(calls, before + 1);
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_INT(flag, 1);
    CHECK_INT(calls, before + 2);
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_INT(calls, before + 4);
    for (int way = 0; way < 3; way++) {
        MPI_Request two[2];
        MPI_Status statuses[2];
        int index, count, indices[2];
        before = calls;
        CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &two[0]));
        two[1] = MPI_REQUEST_NULL;
        CHECK_OK(MPI_Grequest_complete(two[0]));
        if (way == 0) CHECK_OK(MPI_Waitall(2, two, statuses));
        if (way == 1) CHECK_OK(MPI_Waitany(2, two, &index, &status));
        if (way == 2) CHECK_OK(MPI_Testsome(2, two, &count, indices, statuses));
        CHECK_INT(calls, before + 2);
    }
    before = calls;
    CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &request));
    CHECK_OK(MPI_Grequest_complete(request));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_INT(calls, before + 1);
}

int main(int argc, char **argv)
{
    int provided = 0;
    pthread_t thread;
    MPI_Comm comms[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &other));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    comms[0] = MPI_COMM_WORLD;
    pthread_create(&thread, NULL, answer, NULL);
    for (int c = 0; c < 2; c++) {
        operations(comms[c]);
        attributes(comms[c]);
        error_handlers(comms[c]);
    }
    generalized();
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    CHECK_OK(MPI_Comm_free(&comms[1]));
    CHECK_OK(MPI_Comm_free(&other));
    return check_end();
}
