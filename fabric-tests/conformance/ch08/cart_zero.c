/* Zero-dimensional Cartesian topologies: one process gets the communicator, the others MPI_COMM_NULL; inquiries leave their
 * outputs alone; MPI_Cart_rank gives 0; MPI_Cart_sub gives another of the kind; MPI_Cart_shift has no dimension. (Open MPI 5.0.11 shifts all the same.)
 *
 * Covers: 8.5.1, 8.5.5, 8.5.6, 8.5.7, 8.5.8
 * Ranks: 1 2 5
 */
#include "check.h"

static void check_zero(MPI_Comm cart)
{
    int status, ndims = -1, size, rank = -1, dims[2] = {-7, -7}, periods[2] = {-7, -7}, coords[2] = {-7, -7};
    CHECK_OK(MPI_Topo_test(cart, &status));
    CHECK_INT(status, MPI_CART);
    CHECK_OK(MPI_Comm_size(cart, &size));
    CHECK_INT(size, 1);
    CHECK_OK(MPI_Cartdim_get(cart, &ndims));
    CHECK_INT(ndims, 0);
    CHECK_OK(MPI_Cart_get(cart, 2, dims, periods, coords));
    for (int i = 0; i < 2; i++) {
        CHECK_INT(dims[i], -7);
        CHECK_INT(periods[i], -7);
        CHECK_INT(coords[i], -7);
    }
    CHECK_OK(MPI_Cart_coords(cart, 0, 2, coords));
    CHECK_INT(coords[0], -7);
    CHECK_OK(MPI_Cart_rank(cart, (int[]){1234567}, &rank));
    CHECK_INT(rank, 0);
    int source, dest;
    CHECK_OK(MPI_Comm_set_errhandler(cart, MPI_ERRORS_RETURN));
    CHECK(MPI_Cart_shift(cart, 0, 1, &source, &dest) != MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm zero, sub, grid;
    int unused = 0, newrank = -1;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 0, &unused, &unused, 0, &zero));
    CHECK((zero != MPI_COMM_NULL) == (check_rank == 0));
    if (zero != MPI_COMM_NULL) {
        check_zero(zero);
        CHECK_OK(MPI_Cart_sub(zero, &unused, &sub));
        check_zero(sub);
        CHECK_OK(MPI_Comm_free(&sub));
        CHECK_OK(MPI_Comm_dup(zero, &sub));
        check_zero(sub);
        CHECK_OK(MPI_Comm_free(&sub));
        CHECK_OK(MPI_Comm_free(&zero));
    }
    /* No dimension remains. */
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){check_size, 1}, (int[]){1, 0}, 0, &grid));
    CHECK_OK(MPI_Cart_sub(grid, (int[]){0, 0}, &sub));
    check_zero(sub);
    CHECK_OK(MPI_Comm_free(&sub));
    CHECK_OK(MPI_Comm_free(&grid));
    CHECK_OK(MPI_Cart_map(MPI_COMM_WORLD, 0, &unused, &unused, &newrank));
    CHECK(newrank == MPI_UNDEFINED || newrank == 0);
    return check_end();
}
