/* MPI_INFO_ENV tells what was asked for at the launch; it is predefined, so it is not freed. MPI_Info_create_env makes a new object of the
 * same kind at any time, also before MPI_Init and after MPI_Finalize, with the arguments given.
 *
 * Covers: 10, 11.2.1, 11.4.3
 * Ranks: 1 2
 * Args: first second
 */
#include "check.h"

static int find(MPI_Info info, const char *key, char value[MPI_MAX_INFO_VAL])
{
    int flag = 0, length = MPI_MAX_INFO_VAL;
    CHECK_INT(MPI_Info_get_string(info, key, &length, value, &flag), MPI_SUCCESS);
    return flag;
}

/* The keys that are there have values of their form. */
static void look(MPI_Info info)
{
    char value[MPI_MAX_INFO_VAL];
    int n = -1;
    CHECK_INT(MPI_Info_get_nkeys(info, &n), MPI_SUCCESS);
    CHECK(n >= 0);
    if (find(info, "maxprocs", value)) CHECK_INT(atoi(value) > 0, 1);
    if (find(info, "command", value)) CHECK(strstr(value, "env") != NULL);
    if (find(info, "argv", value)) CHECK_STR(value, "first second");
    if (find(info, "mpi_memory_alloc_kinds", value)) CHECK(strlen(value) > 0);
    if (find(info, "thread_level", value)) CHECK(strncmp(value, "MPI_THREAD_", 11) == 0);
    if (find(info, "wdir", value)) CHECK(value[0] == '/');
}

static void make(int argc, char **argv)
{
    char value[MPI_MAX_INFO_VAL];
    MPI_Info first, second;
    CHECK_INT(MPI_Info_create_env(argc, argv, &first), MPI_SUCCESS);
    look(first);
    CHECK_INT(MPI_Info_create_env(argc, argv, &second), MPI_SUCCESS);
    CHECK(first != second);
    CHECK_INT(MPI_Info_set(second, "of mine", "yes"), MPI_SUCCESS);
    CHECK(!find(first, "of mine", value));
    CHECK_INT(MPI_Info_free(&first), MPI_SUCCESS);
    CHECK_INT(MPI_Info_free(&second), MPI_SUCCESS);
    CHECK_INT(MPI_Info_create_env(0, NULL, &first), MPI_SUCCESS);
    look(first);
    CHECK_INT(MPI_Info_free(&first), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    char value[MPI_MAX_INFO_VAL];
    MPI_Info copy;
    make(argc, argv);
    check_start(&argc, &argv);
    make(argc, argv);
    look(MPI_INFO_ENV);
    CHECK_OK(MPI_Info_dup(MPI_INFO_ENV, &copy));
    look(copy);
    CHECK_OK(MPI_Info_set(copy, "of mine", "yes"));
    CHECK(!find(MPI_INFO_ENV, "of mine", value));
    CHECK_OK(MPI_Info_free(&copy));
    MPI_Finalize();
    make(argc, argv);
    return check_verdict();
}
