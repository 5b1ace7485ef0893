/* Duplicates have the topology of their parent, in all forms of duplication; communicators made by split, create and create_group
 * have none; a duplicate outlives its parent. (Open MPI 5.0.11 lets MPI_Comm_split_type with a single shared-memory group keep the topology.)
 *
 * Covers: 8.3, 7.4.2
 * Ranks: 1 2 4
 */
#include "check.h"

static int kind_of(MPI_Comm comm)
{
    int status;
    CHECK_OK(MPI_Topo_test(comm, &status));
    return status;
}

static void check_family(MPI_Comm parent, int kind)
{
    MPI_Comm child;
    MPI_Group group;
    MPI_Request request;
    CHECK_INT(kind_of(parent), kind);
    CHECK_OK(MPI_Comm_dup(parent, &child));
    CHECK_INT(kind_of(child), kind);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_dup_with_info(parent, MPI_INFO_NULL, &child));
    CHECK_INT(kind_of(child), kind);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_idup(parent, &child, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(kind_of(child), kind);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_idup_with_info(parent, MPI_INFO_NULL, &child, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(kind_of(child), kind);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_split(parent, 0, 0, &child));
    CHECK_INT(kind_of(child), MPI_UNDEFINED);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &child));
    CHECK_INT(kind_of(child), MPI_UNDEFINED);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_group(parent, &group));
    CHECK_OK(MPI_Comm_create(parent, group, &child));
    CHECK_INT(kind_of(child), MPI_UNDEFINED);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_create_group(parent, group, 5, &child));
    CHECK_INT(kind_of(child), MPI_UNDEFINED);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Group_free(&group));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, index[4], edges[4], right = (me + 1) % n, left = (me + n - 1) % n;
    MPI_Comm comm, copy;
    CHECK_INT(kind_of(MPI_COMM_WORLD), MPI_UNDEFINED);
    CHECK_INT(kind_of(MPI_COMM_SELF), MPI_UNDEFINED);
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n, &(int){1}, 0, &comm));
    check_family(comm, MPI_CART);
    CHECK_OK(MPI_Comm_dup(comm, &copy));
    CHECK_OK(MPI_Comm_free(&comm));
    int source, dest, dims, periods, coords;
    CHECK_OK(MPI_Cart_shift(copy, 0, 1, &source, &dest));
    CHECK_INT(source, left);
    CHECK_INT(dest, right);
    CHECK_OK(MPI_Cart_get(copy, 1, &dims, &periods, &coords));
    CHECK_INT(dims, n);
    CHECK_INT(periods != 0, 1);
    CHECK_INT(coords, me);
    CHECK_OK(MPI_Comm_free(&copy));

    for (int i = 0; i < n; i++) {
        index[i] = i + 1;
        edges[i] = (i + 1) % n;
    }
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &comm));
    check_family(comm, MPI_GRAPH);
    CHECK_OK(MPI_Comm_dup(comm, &copy));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Graph_neighbors(copy, me, 1, &dest));
    CHECK_INT(dest, right);
    CHECK_OK(MPI_Comm_free(&copy));

    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED,
                                            MPI_INFO_NULL, 0, &comm));
    check_family(comm, MPI_DIST_GRAPH);
    CHECK_OK(MPI_Comm_dup(comm, &copy));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Dist_graph_neighbors(copy, 1, &source, MPI_UNWEIGHTED, 1, &dest, MPI_UNWEIGHTED));
    CHECK_INT(source, left);
    CHECK_INT(dest, right);
    CHECK_OK(MPI_Comm_free(&copy));
    return check_end();
}
