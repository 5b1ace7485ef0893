/* Error handlers: the predefined ones are what MPI_Comm_get_errhandler returns, a user's handler is called with
 * communicator and code, children inherit it, it lives while attached, MPI_Comm_call_errhandler calls it.
 *
 * Covers: 9.3, 9.3.1, 9.5.2
 * Ranks: 1 2
 */
#include "check.h"

static int calls, last_code;
static MPI_Comm last_comm;

static void note(MPI_Comm *comm, int *code, ...)
{
    calls++;
    last_comm = *comm;
    last_code = *code;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    MPI_Errhandler_free(&handler);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler);
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    check_world();
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ABORT));
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK(handler == MPI_ERRORS_ABORT);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));

    MPI_Errhandler mine;
    MPI_Comm comm, child;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(note, &mine));
    CHECK_OK(MPI_Comm_set_errhandler(comm, mine));
    CHECK_OK(MPI_Errhandler_free(&mine));
    CHECK(mine == MPI_ERRHANDLER_NULL);
    MPI_Send(NULL, 0, MPI_INT, 1000, 0, comm);
    CHECK_INT(calls, 1);
    CHECK(last_comm == comm);
    CHECK_INT(check_class_of(last_code), MPI_ERR_RANK);
    CHECK_OK(MPI_Comm_dup(comm, &child));
    MPI_Send(NULL, -1, MPI_INT, 0, 0, child);
    CHECK_INT(calls, 2);
    CHECK(last_comm == child);
    CHECK_INT(check_class_of(last_code), MPI_ERR_COUNT);
    CHECK_OK(MPI_Comm_call_errhandler(child, MPI_ERR_OTHER));
    CHECK_INT(calls, 3);
    CHECK_INT(last_code, MPI_ERR_OTHER);
    CHECK_OK(MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER)); /* returns */
    CHECK_INT(calls, 3);
    /* An error of a request goes to the handler of its communicator. */
    int value = 0;
    MPI_Request request;
    CHECK_OK(MPI_Irecv(&value, 0, MPI_INT, check_rank, 1, child, &request));
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, 1, child));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK_INT(calls, 4);
    CHECK_INT(check_class_of(last_code), MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
