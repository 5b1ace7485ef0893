/* A call that failed returns its error code also when a user's handler was called and returned: MPI_SUCCESS is returned if
 * and only if the specification was fulfilled. (MPICH 5.0 returns MPI_SUCCESS.)
 *
 * Covers: 9.4, 9.3
 * Ranks: 1
 */
#include "check.h"

static int calls;

static void note(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    calls++;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Errhandler mine;
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(note, &mine));
    CHECK_OK(MPI_Comm_set_errhandler(comm, mine));
    CHECK_CLASS(MPI_Send(NULL, 0, MPI_INT, 1000, 0, comm), MPI_ERR_RANK);
    CHECK_INT(calls, 1);
    int value = 0;
    MPI_Request request;
    CHECK_OK(MPI_Irecv(&value, 0, MPI_INT, check_rank, 1, comm, &request));
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, 1, comm));
    CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    CHECK_INT(calls, 2);
    CHECK_OK(MPI_Errhandler_free(&mine));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
