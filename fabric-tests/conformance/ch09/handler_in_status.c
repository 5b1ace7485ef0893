/* Where a call returns MPI_ERR_IN_STATUS, the error handler gets the code of the request that failed, which the status has too. (MPICH
 * 5.0 and Open MPI 5.0 call no handler then, though section 9.3.1 says what code it gets.)
 *
 * Covers: 9.3.1, 3.7.5
 * Ranks: 1
 */
#include "check.h"

static int calls, last;
static void note(MPI_Comm *comm, int *code, ...) { (void)comm, calls++, last = *code; }

int main(int argc, char **argv)
{
    MPI_Comm comm;
    MPI_Errhandler mine;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int value = 0, small[2], two[2] = {1, 2}, code;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(note, &mine));
    CHECK_OK(MPI_Comm_set_errhandler(comm, mine));
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, 0, 1, comm, &requests[0]));
    CHECK_OK(MPI_Irecv(small, 1, MPI_INT, 0, 2, comm, &requests[1]));
    CHECK_OK(MPI_Send(two, 1, MPI_INT, 0, 1, comm));
    CHECK_OK(MPI_Send(two, 2, MPI_INT, 0, 2, comm));
    code = MPI_Waitall(2, requests, statuses);
    CHECK_INT(code, MPI_ERR_IN_STATUS);
    CHECK_INT(calls, 1);
    CHECK_INT(check_class_of(last), MPI_ERR_TRUNCATE);
    CHECK_INT(statuses[0].MPI_ERROR, MPI_SUCCESS);
    CHECK_INT(statuses[1].MPI_ERROR, last);
    CHECK_OK(MPI_Errhandler_free(&mine));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
