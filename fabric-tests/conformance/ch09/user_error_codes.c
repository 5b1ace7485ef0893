/* Error classes, codes and strings added by the user; MPI_LASTUSEDCODE is at least the largest class. (It
 * counts classes, not codes: MPICH 5.0 was right where an older form of this program asked for codes. Open MPI 5.0 gives the
 * code a wrong class.)
 *
 * Covers: 9.5.1, 7.7.2
 * Ranks: 1
 */
#include "check.h"

/* Fails with the code that the key's extra state points to. */
static int refuse(MPI_Comm comm, int key, void *value, void *code)
{
    (void)comm, (void)key, (void)value;
    int refused = *(int *)code;
    *(int *)code = MPI_SUCCESS;
    return refused;
}

/* What the program has added keeps the program's text, also right after a call that failed with it. */
static void text_stays_after_failure(int added, const char *wanted)
{
    int key, length, failing = added;
    char text[MPI_MAX_ERROR_STRING];
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, refuse, &key, &failing));
    CHECK_OK(MPI_Comm_set_attr(MPI_COMM_SELF, key, text));
    CHECK(MPI_Comm_delete_attr(MPI_COMM_SELF, key) != MPI_SUCCESS);
    CHECK_OK(MPI_Error_string(added, text, &length));
    CHECK_STR(text, wanted);
    CHECK_OK(MPI_Comm_delete_attr(MPI_COMM_SELF, key));
    CHECK_OK(MPI_Comm_free_keyval(&key));
}

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
    CHECK_OK(MPI_Add_error_string(mine, "of the kitchen"));
    text_stays_after_failure(mine, "of the kitchen");
    text_stays_after_failure(code, "too many cooks");
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag));
    CHECK(flag && *last >= mine);
    return check_end();
}
