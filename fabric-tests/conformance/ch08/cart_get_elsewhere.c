/* MPI_Cart_get on communicators without Cartesian topology has the error class MPI_ERR_TOPOLOGY. (MPICH 5.0.2 crashes.)
 *
 * Covers: 8.5.5
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm graph;
    int dims[2], periods[2], coords[2];
    CHECK_CLASS(MPI_Cart_get(MPI_COMM_WORLD, 2, dims, periods, coords), MPI_ERR_TOPOLOGY);
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, 2, (int[]){1, 2}, (int[]){1, 0}, 0, &graph));
    CHECK_CLASS(MPI_Cart_get(graph, 2, dims, periods, coords), MPI_ERR_TOPOLOGY);
    CHECK_OK(MPI_Comm_free(&graph));
    return check_end();
}
