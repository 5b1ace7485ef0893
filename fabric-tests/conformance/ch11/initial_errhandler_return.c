/* The initial error handler MPI_ERRORS_RETURN: errors before MPI_Init, of a second MPI_Init, after MPI_Finalize, and without object in
 * programs with sessions only come back; MPI_COMM_WORLD and MPI_COMM_SELF begin with it, windows do not; MPI_INFO_ENV names it.
 * (MPICH 5.0's mpiexec has no such option.)
 *
 * Covers: 11.2.1, 9.3, 2.8, 11.5, 11.8.4
 * Ranks: 1 2
 * Mpiexec: -initial-errhandler MPI_Errors_Return
 */
#include "check.h"
#include "sessions.h"
#include "kinds.h"

int main(int argc, char **argv)
{
    static int memory[4];
    char room[MPI_MAX_INFO_VAL];
    int n = -1;
    MPI_Info info;
    MPI_Errhandler handler;
    MPI_Session session;
    MPI_Win win;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    /* Before. */
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &n) != MPI_SUCCESS);
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_CLASS(MPI_Info_delete(info, "not there"), MPI_ERR_INFO_NOKEY);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK_CLASS(MPI_Info_free(&info), MPI_ERR_INFO);
    /* With a session alone. */
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session), MPI_SUCCESS);
    CHECK(MPI_Type_free(&type) != MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    CHECK(MPI_Init(&argc, &argv) != MPI_SUCCESS);
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Send(NULL, 0, MPI_INT, 1000, 0, MPI_COMM_WORLD), MPI_ERR_RANK);
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_get_errhandler(win, &handler));
    CHECK(handler == MPI_ERRORS_ARE_FATAL);
    CHECK_OK(MPI_Win_free(&win));
    CHECK_STR(value_of(MPI_INFO_ENV, "mpi_initial_errhandler", room), "mpi_errors_return");
    MPI_Finalize();
    /* After. */
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &n) != MPI_SUCCESS);
    CHECK(MPI_Init(&argc, &argv) != MPI_SUCCESS);
    CHECK(MPI_Finalize() != MPI_SUCCESS);
    return check_verdict();
}
