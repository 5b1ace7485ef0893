/* Hints: every supported one with its value, set ones kept, unknown ones ignored, unspecified ones unchanged; given to a duplicate
 * and not inherited by one; the info object is a new one.
 *
 * Covers: 7.4.4, 7.4.2
 * Ranks: 1 2
 */
#include "check.h"

static const char *const hints[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length",
                                    "mpi_assert_allow_overtaking", "mpi_assert_strict_persistent_collective_ordering"};

/* The value of a hint; "" when the implementation does not support it. */
static const char *hint(MPI_Comm comm, const char *key)
{
    static char value[MPI_MAX_INFO_VAL];
    MPI_Info info;
    int flag, length = sizeof value;
    CHECK_OK(MPI_Comm_get_info(comm, &info));
    CHECK(info != MPI_INFO_NULL);
    CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
    CHECK_OK(MPI_Info_free(&info));
    return flag ? value : "";
}

static int is(const char *value, const char *wanted)
{
    return strcmp(value, "") == 0 || strcmp(value, wanted) == 0;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comm, twin;
    MPI_Info info;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < 5; i++) CHECK(is(hint(comm, hints[i]), "false"));
    CHECK_STR(hint(comm, "no_such_hint"), "");
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "no_such_hint", "yes"));
    CHECK_OK(MPI_Info_set(info, hints[0], "true"));
    CHECK_OK(MPI_Comm_set_info(comm, info));
    CHECK(is(hint(comm, hints[0]), "true"));
    CHECK(is(hint(comm, hints[1]), "false"));
    /* Not specified: unchanged. */
    CHECK_OK(MPI_Info_delete(info, hints[0]));
    CHECK_OK(MPI_Info_set(info, hints[2], "true"));
    CHECK_OK(MPI_Comm_set_info(comm, info));
    CHECK(is(hint(comm, hints[0]), "true"));
    CHECK(is(hint(comm, hints[2]), "true"));
    /* Not inherited. */
    CHECK_OK(MPI_Comm_dup(comm, &twin));
    for (int i = 0; i < 5; i++) CHECK(is(hint(twin, hints[i]), "false"));
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK_OK(MPI_Comm_split(comm, 0, 0, &twin));
    for (int i = 0; i < 5; i++) CHECK(is(hint(twin, hints[i]), "false"));
    CHECK_OK(MPI_Comm_free(&twin));
    /* Given: those and no others. */
    CHECK_OK(MPI_Comm_dup_with_info(comm, info, &twin));
    CHECK(is(hint(twin, hints[0]), "false"));
    CHECK(is(hint(twin, hints[2]), "true"));
    CHECK_OK(MPI_Info_set(info, hints[2], "false"));
    CHECK_OK(MPI_Comm_set_info(twin, info));
    CHECK(is(hint(twin, hints[2]), "false"));
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
