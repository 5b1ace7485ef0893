/* MPI_THREAD_MULTIPLE: a handler that one thread attaches is called for the errors of all; each error is told to it once, on the object of
 * the call, before the call returns.
 *
 * Covers: 9.3, 11.6.2
 * Ranks: 1 2
 * [MPICH 5.0 mixes up its error codes when several threads have errors: "Ring ids do not match".]
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ERRORS = 500 };

static MPI_Comm comms[THREADS], shared;
static int told[THREADS], told_shared;

static void handler(MPI_Comm *comm, int *code, ...)
{
    int class = -1;
    MPI_Error_class(*code, &class);
    CHECK_INT(class, MPI_ERR_TRUNCATE);
    if (*comm == shared) {
        __atomic_add_fetch(&told_shared, 1, __ATOMIC_RELAXED);
        return;
    }
    for (int i = 0; i < THREADS; i++)
        if (*comm == comms[i]) {
            __atomic_add_fetch(&told[i], 1, __ATOMIC_RELAXED);
            return;
        }
    CHECK_FAIL("told of a communicator that nobody used");
}

static void *err(void *argument)
{
    long me = (long)argument;
    int two[2] = {1, 2}, value = 0, rank = -1;
    MPI_Request request;
    for (int i = 0; i < ERRORS; i++) {
        int before = __atomic_load_n(&told[me], __ATOMIC_RELAXED);
        CHECK_INT(MPI_Isend(two, 2, MPI_INT, check_rank, 3, comms[me], &request), MPI_SUCCESS);
        MPI_Recv(&value, 1, MPI_INT, check_rank, 3, comms[me], MPI_STATUS_IGNORE);
        CHECK_INT(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_INT(__atomic_load_n(&told[me], __ATOMIC_RELAXED), before + 1);
        CHECK_INT(MPI_Isend(two, 2, MPI_INT, check_rank, (int)me, shared, &request), MPI_SUCCESS);
        MPI_Recv(&value, 1, MPI_INT, check_rank, (int)me, shared, MPI_STATUS_IGNORE);
        CHECK_INT(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_SUCCESS);
        /* What is right beside it is not told. */
        CHECK_INT(MPI_Comm_rank(comms[me], &rank), MPI_SUCCESS);
        CHECK_INT(rank, check_rank);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Errhandler errhandler;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_create_errhandler(handler, &errhandler));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    CHECK_OK(MPI_Comm_set_errhandler(shared, errhandler));
    for (int i = 0; i < THREADS; i++) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        CHECK_OK(MPI_Comm_set_errhandler(comms[i], errhandler));
    }
    CHECK_OK(MPI_Errhandler_free(&errhandler));
    for (long i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, err, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK_INT(told[i], ERRORS);
    CHECK_INT(told_shared, THREADS * ERRORS);
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    CHECK_OK(MPI_Comm_free(&shared));
    return check_end();
}
