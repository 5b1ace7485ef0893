/* Virtual topologies cannot be added to intercommunicators: all constructors refuse them, with the class MPI_ERR_COMM, and MPI_Topo_test says that
 * there is none. MPI_Intercomm_merge gives no topology either.
 *
 * Covers: 8.1, 8.4, 7.6.2
 * Ranks: 2 4
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm half, inter, made, grid;
    int side = check_rank % 2, status, one = 1, zero = 0, n;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half));
    CHECK_OK(MPI_Comm_size(half, &n));
    CHECK_OK(MPI_Cart_create(half, 1, &n, &zero, 0, &grid));
    CHECK_OK(MPI_Intercomm_create(grid, 0, MPI_COMM_WORLD, 1 - side, 7, &inter));
    CHECK_OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Topo_test(inter, &status));
    CHECK_INT(status, MPI_UNDEFINED);
    CHECK_CLASS(MPI_Cart_create(inter, 1, &one, &zero, 0, &made), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Graph_create(inter, 1, &zero, &zero, 0, &made), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Dist_graph_create(inter, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(inter, 0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made),
                MPI_ERR_COMM);
    CHECK_OK(MPI_Intercomm_merge(inter, side, &made));
    CHECK_OK(MPI_Topo_test(made, &status));
    CHECK_INT(status, MPI_UNDEFINED);
    CHECK_OK(MPI_Comm_free(&made));
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&grid));
    CHECK_OK(MPI_Comm_free(&half));
    return check_end();
}
