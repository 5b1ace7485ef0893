/* What is erroneous about error classes, codes and strings of the user is refused: removing twice, in the wrong order, what was never
 * added, or what the standard defines; a string for a class of the standard; a code in an unknown class; a string that is too
 * long. (The standard leaves the diagnosis open: MPICH 5.0 finds most of it under other classes.)
 *
 * Covers: 9.5.1
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    int mine = -1, code = -1, got = -1;
    char text[MPI_MAX_ERROR_STRING + 2];
    check_start(&argc, &argv);
    CHECK_OK(MPI_Add_error_class(&mine));
    CHECK_OK(MPI_Add_error_code(mine, &code));
    CHECK_OK(MPI_Add_error_string(code, "text"));
    CHECK_CLASS(MPI_Remove_error_class(mine), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_code(code), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_code(mine), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_class(code), MPI_ERR_ARG);
    CHECK_OK(MPI_Remove_error_string(code));
    CHECK_CLASS(MPI_Remove_error_string(code), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_class(mine), MPI_ERR_ARG);
    CHECK_OK(MPI_Remove_error_code(code));
    CHECK_CLASS(MPI_Remove_error_code(code), MPI_ERR_ARG);
    CHECK_OK(MPI_Remove_error_class(mine));
    CHECK_CLASS(MPI_Remove_error_class(mine), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Error_class(mine, &got), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_class(MPI_ERR_RANK), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_code(MPI_ERR_RANK), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Remove_error_string(MPI_ERR_RANK), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_string(MPI_ERR_RANK, "no"), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_string(MPI_ERR_LASTCODE, "no"), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Add_error_code(1 << 30, &code), MPI_ERR_ARG);
    CHECK_OK(MPI_Add_error_class(&mine));
    memset(text, 'x', sizeof text);
    text[MPI_MAX_ERROR_STRING + 1] = 0;
    CHECK_CLASS(MPI_Add_error_string(mine, text), MPI_ERR_ARG);
    CHECK_OK(MPI_Remove_error_class(mine));
    return check_end();
}
