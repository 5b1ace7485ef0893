/* Error classes, codes and strings added by the user; MPI_LASTUSEDCODE is at least the largest class. (It
 * counts classes, not codes: MPICH 5.0 was right where an older form of this program asked for codes. Open MPI 5.0 gives the
 * code a wrong class.)
 *
 * Covers: 9.5.1
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    int mine = -1, code = -1, got = -1, length = -1, flag, *last;
    char text[MPI_MAX_ERROR_STRING];
    check_start(&argc, &argv);
    CHECK_OK(MPI_Add_error_class(&mine));
    CHECK(mine > MPI_ERR_LASTCODE);
    CHECK_OK(MPI_Add_error_code(mine, &code));
    CHECK(code > MPI_ERR_LASTCODE && code != mine);
    CHECK_OK(MPI_Error_class(code, &got));
    CHECK_INT(got, mine);
    CHECK_OK(MPI_Error_class(mine, &got));
    CHECK_INT(got, mine);
    CHECK_OK(MPI_Error_string(code, text, &length));
    CHECK_INT(length, 0);
    CHECK_STR(text, "");
    CHECK_OK(MPI_Add_error_string(code, "too many cooks"));
    CHECK_OK(MPI_Error_string(code, text, &length));
    CHECK_STR(text, "too many cooks");
    CHECK_INT(length, strlen("too many cooks"));
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag && *last >= mine);
    return check_end();
}
