/* WEFT_LEAKS is silent about error handlers that the program has freed and that objects keep, be it for good, as MPI_COMM_WORLD does. Such a
 * handler goes on being called; freeing it a second time is an error, and takes nothing from the objects.
 *
 * Covers: 9.3.5, 11.2.2
 * Ranks: 1 2
 * Env: WEFT_LEAKS=yes
 * Absent: did not free
 */
#include "check.h"

static int calls = 0;

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm, (void)code;
    calls++;
}

int main(int argc, char **argv)
{
    MPI_Errhandler errhandler, copy, attached;
    MPI_Comm comm;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_create_errhandler(handler, &errhandler));
    copy = errhandler;
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Errhandler_free(&errhandler));
    CHECK(errhandler == MPI_ERRHANDLER_NULL);
    CHECK_CLASS(MPI_Errhandler_free(&copy), MPI_ERR_ERRHANDLER);
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_SELF, copy), MPI_ERR_ERRHANDLER);
    CHECK(MPI_Send(NULL, -1, MPI_INT, 0, 0, comm) != MPI_SUCCESS);
    CHECK_INT(calls, 1);
    CHECK_OK(MPI_Comm_free(&comm));

    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &attached));
    CHECK_OK(MPI_Errhandler_free(&attached));
    CHECK(MPI_Send(NULL, -1, MPI_INT, 0, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK_INT(calls, 2);
    return check_end();
}
