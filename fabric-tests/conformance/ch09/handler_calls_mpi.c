/* An error handler may call MPI: ask for the string, communicate, fail on another communicator (whose handler runs inside), replace and
 * free itself.
 *
 * Covers: 9.3.1, 9.3.5, 9.5.2, 11.6.2
 * Ranks: 1 2
 */
#include "check.h"

static int outer_calls, inner_calls, last;
static MPI_Comm quiet, noisy;
static MPI_Errhandler own;

static void inner(MPI_Comm *comm, int *code, ...)
{
    CHECK(*comm == quiet);
    CHECK_INT(check_class_of(*code), MPI_ERR_TAG);
    inner_calls++;
}

static void outer(MPI_Comm *comm, int *code, ...)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = -1, one = 1, got = 0;
    outer_calls++;
    last = *code;
    CHECK_OK(MPI_Error_string(*code, text, &length));
    CHECK(length > 0);
    CHECK_OK(MPI_Sendrecv(&one, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_INT(got, 1);
    MPI_Send(NULL, 0, MPI_INT, 0, -5, quiet);
    if (outer_calls == 3) {
        CHECK_OK(MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN));
        CHECK_OK(MPI_Errhandler_free(&own));
    }
}

int main(int argc, char **argv)
{
    MPI_Errhandler within;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &quiet));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &noisy));
    CHECK_OK(MPI_Comm_create_errhandler(inner, &within));
    CHECK_OK(MPI_Comm_create_errhandler(outer, &own));
    CHECK_OK(MPI_Comm_set_errhandler(quiet, within));
    CHECK_OK(MPI_Comm_set_errhandler(noisy, own));
    MPI_Send(NULL, 0, MPI_INT, 1000, 0, noisy);
    CHECK_INT(outer_calls, 1);
    CHECK_INT(inner_calls, 1);
    CHECK_INT(check_class_of(last), MPI_ERR_RANK);

    CHECK_OK(MPI_Comm_call_errhandler(noisy, MPI_ERR_OTHER));
    CHECK_INT(last, MPI_ERR_OTHER);
    CHECK_OK(MPI_Comm_call_errhandler(noisy, MPI_ERR_OTHER));
    CHECK_INT(outer_calls, 3);
    CHECK(own == MPI_ERRHANDLER_NULL);
    CHECK_CLASS(MPI_Send(NULL, 0, MPI_INT, 1000, 0, noisy), MPI_ERR_RANK);
    CHECK_INT(outer_calls, 3);
    CHECK_OK(MPI_Errhandler_free(&within));
    CHECK_OK(MPI_Comm_free(&quiet));
    CHECK_OK(MPI_Comm_free(&noisy));
    return check_end();
}
