/* Hints of a communicator do not come along to the communicators with topologies that are made of it: Cartesian ones and their parts, graphs and
 * distributed graphs in both forms, with and without hints of their own. (Intel MPI 2021: they do.)
 *
 * Covers: 8.4, 8.5.1, 8.5.3, 8.5.4, 8.5.7, 7.4.4
 * Ranks: 1 2 5
 */
#include "check.h"

/* Assertions that hold for what this program does. */
static const char *const hints[] = {"mpi_assert_no_any_tag", "mpi_assert_no_any_source", "mpi_assert_exact_length",
                                    "mpi_assert_allow_overtaking", "mpi_assert_strict_persistent_collective_ordering"};
enum { HINTS = 5 };

/* The value of a hint; "" when the implementation does not support it. */
static const char *hint(MPI_Comm comm, const char *key)
{
    static char value[MPI_MAX_INFO_VAL];
    MPI_Info info;
    int flag, length = sizeof value;
    CHECK_OK(MPI_Comm_get_info(comm, &info));
    CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
    CHECK_OK(MPI_Info_free(&info));
    return flag ? value : "";
}

static void has(MPI_Comm comm, const char *wanted)
{
    for (int i = 0; i < HINTS; i++) {
        const char *value = hint(comm, hints[i]);
        if (strcmp(value, "") != 0) CHECK_STR(value, wanted);
    }
}

/* It works, and has none of the parent's hints. */
static void check_fresh(MPI_Comm comm)
{
    int kind, sum = 0;
    has(comm, "false");
    CHECK_OK(MPI_Topo_test(comm, &kind));
    CHECK(kind != MPI_UNDEFINED);
    CHECK_OK(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_INT(sum, check_size);
    CHECK_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, right = (check_rank + 1) % n, left = (check_rank + n - 1) % n, one = 1;
    int *index = check_alloc(sizeof(int) * (size_t)n), *edges = check_alloc(sizeof(int) * (size_t)n);
    MPI_Comm parent, made, part;
    MPI_Info info, other;
    for (int i = 0; i < n; i++) index[i] = i + 1, edges[i] = (i + 1) % n;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    CHECK_OK(MPI_Info_create(&info));
    for (int i = 0; i < HINTS; i++) CHECK_OK(MPI_Info_set(info, hints[i], "true"));
    CHECK_OK(MPI_Info_create(&other));
    CHECK_OK(MPI_Info_set(other, "no_such_hint", "yes"));
    has(parent, "false");
    CHECK_OK(MPI_Comm_set_info(parent, info));

    CHECK_OK(MPI_Cart_create(parent, 1, &n, &(int){1}, 0, &made));
    has(made, "false");
    CHECK_OK(MPI_Comm_set_info(made, info));
    CHECK_OK(MPI_Cart_sub(made, &(int){1}, &part));
    check_fresh(part);
    CHECK_OK(MPI_Comm_free(&made));
    CHECK_OK(MPI_Cart_create(parent, 1, &n, &(int){1}, 1, &made));
    check_fresh(made);
    CHECK_OK(MPI_Graph_create(parent, n, index, edges, 0, &made));
    check_fresh(made);
    for (int own = 0; own < 2; own++) {
        MPI_Info given = own ? other : MPI_INFO_NULL;
        CHECK_OK(MPI_Dist_graph_create(parent, 1, &check_rank, &one, &right, MPI_UNWEIGHTED, given, 0, &made));
        CHECK_STR(hint(made, "no_such_hint"), "");
        check_fresh(made);
        CHECK_OK(MPI_Dist_graph_create_adjacent(parent, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, given, 0, &made));
        CHECK_STR(hint(made, "no_such_hint"), "");
        check_fresh(made);
    }
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Info_free(&other));
    CHECK_OK(MPI_Comm_free(&parent));
    free(index);
    free(edges);
    return check_end();
}
