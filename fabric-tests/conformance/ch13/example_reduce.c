/* The example of section 13.2.1: a reduction as a generalized request, with a thread for each that talks to its children and
 * its parent and completes the request, which wakes whoever waits for it.
 *
 * Covers: 13.2, 13.2.1, 11.6
 * Ranks: 1 2 3 5
 */
#include "check.h"
#include <pthread.h>

typedef struct {
    MPI_Comm comm;
    int tag, root, valin, *valout;
    MPI_Request request;
} ARGS;

static int query_fn(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 1);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int free_fn(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int cancel_fn(void *extra, int complete)
{
    (void)extra;
    if (!complete) CHECK_FAIL("nobody cancels here");
    return MPI_SUCCESS;
}

static void *reduce_thread(void *ptr)
{
    ARGS *args = (ARGS *)ptr;
    int size, rank, lval = 0, rval = 0, val;
    MPI_Request req[2];
    MPI_Comm_rank(args->comm, &rank);
    MPI_Comm_size(args->comm, &size);
    int place = (rank - args->root + size) % size;
#define AT(p) ((p) < size ? ((p) + args->root) % size : MPI_PROC_NULL)
    int lchild = AT(2 * place + 1), rchild = AT(2 * place + 2);
    int parent = place == 0 ? MPI_PROC_NULL : AT((place - 1) / 2);
    MPI_Irecv(&lval, 1, MPI_INT, lchild, args->tag, args->comm, &req[0]);
    MPI_Irecv(&rval, 1, MPI_INT, rchild, args->tag, args->comm, &req[1]);
    MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
    val = lval + args->valin + rval;
    MPI_Send(&val, 1, MPI_INT, parent, args->tag, args->comm);
    if (parent == MPI_PROC_NULL) *args->valout = val;
    MPI_Grequest_complete(args->request);
    free(ptr);
    return NULL;
}

static pthread_t myreduce(MPI_Comm comm, int tag, int root, int valin, int *valout, MPI_Request *request)
{
    pthread_t thread;
    CHECK_OK(MPI_Grequest_start(query_fn, free_fn, cancel_fn, NULL, request));
    ARGS *args = (ARGS *)check_alloc(sizeof *args);
    *args = (ARGS){comm, tag, root, valin, valout, *request};
    if (pthread_create(&thread, NULL, reduce_thread, args) != 0) CHECK_FAIL("no thread");
    return thread;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    if (provided < MPI_THREAD_MULTIPLE) return check_end();
    for (int round = 0; round < 20; round++) {
        enum { N = 4 };
        int values[N], index, flag, wanted = check_size * (check_size + 1) / 2;
        pthread_t threads[N];
        MPI_Request requests[N];
        MPI_Status status;
        for (int i = 0; i < N; i++) {
            values[i] = -1;
            threads[i] = myreduce(MPI_COMM_WORLD, i, i % check_size, (check_rank + 1) * (i + 1), &values[i], &requests[i]);
        }
        CHECK_OK(MPI_Wait(&requests[0], &status));
        CHECK_INT(status.MPI_SOURCE, MPI_UNDEFINED);
        CHECK_OK(MPI_Waitany(N, requests, &index, &status));
        CHECK(index > 0);
        for (flag = 0; !flag;) CHECK_OK(MPI_Testall(N, requests, &flag, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) pthread_join(threads[i], NULL);
        for (int i = 0; i < N; i++) CHECK_INT(values[i], i % check_size == check_rank ? wanted * (i + 1) : -1);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return check_end();
}
