/* What may be called before MPI_Init and after MPI_Finalize: flags, versions, info objects, error classes and their strings.
 * (MPICH 5.0 has no early MPI_Add_error_class.)
 *
 * Covers: 11.4.1, 9.5.1, 10
 * Ranks: 1
 */
#include "check.h"

static void use(void)
{
    int flag = -1, error_class = -1, code = -1, length = sizeof(char[64]), n = -1;
    char text[MPI_MAX_ERROR_STRING] = "";
    MPI_Info info;
    CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK_INT(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Info_set(info, "colour", "green"), MPI_SUCCESS);
    CHECK_INT(MPI_Info_get_string(info, "colour", &length, text, &flag), MPI_SUCCESS);
    CHECK(flag);
    CHECK_STR(text, "green");
    CHECK_INT(length, 6);
    CHECK_INT(MPI_Info_get_nkeys(info, &n), MPI_SUCCESS);
    CHECK_INT(n, 1);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK(info == MPI_INFO_NULL);
    CHECK_INT(MPI_Add_error_class(&error_class), MPI_SUCCESS);
    CHECK_INT(MPI_Add_error_code(error_class, &code), MPI_SUCCESS);
    CHECK_INT(MPI_Add_error_string(code, "of ours"), MPI_SUCCESS);
    CHECK_INT(MPI_Error_string(code, text, &length), MPI_SUCCESS);
    CHECK_STR(text, "of ours");
    CHECK_INT(MPI_Error_class(code, &n), MPI_SUCCESS);
    CHECK_INT(n, error_class);
}

int main(int argc, char **argv)
{
    use();
    check_start(&argc, &argv);
    use();
    MPI_Finalize();
    use();
    return check_verdict();
}
