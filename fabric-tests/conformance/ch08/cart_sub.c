/* MPI_Cart_sub: example 8.8, and every choice of dimensions of grids of two and three dimensions: members, row-major ranks, extents and
 * periods of the subgrids.
 *
 * Covers: 8.5.7, 8.4
 * Ranks: 1 4 6 8 12 24
 * Timeout: 120
 */
#include "check.h"

static void check_subgrids(int ndims, int *dims, int *periods)
{
    MPI_Comm cart;
    int rank, coords[3];
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &cart));
    if (cart == MPI_COMM_NULL) return;
    CHECK_OK(MPI_Comm_rank(cart, &rank));
    CHECK_OK(MPI_Cart_coords(cart, rank, ndims, coords));
    for (int choice = 0; choice < 1 << ndims; choice++) {
        MPI_Comm sub;
        int remain[3], count = 0, size = 1, place = 0, got_ndims, got_size, got_rank, status;
        int sub_dims[3] = {-1, -1, -1}, sub_periods[3], sub_coords[3];
        for (int i = 0; i < ndims; i++) {
            remain[i] = choice >> i & 1 ? 3 : 0;
            if (!remain[i]) continue;
            size *= dims[i];
            place = place * dims[i] + coords[i];
        }
        CHECK_OK(MPI_Cart_sub(cart, remain, &sub));
        CHECK_OK(MPI_Topo_test(sub, &status));
        CHECK_INT(status, MPI_CART);
        CHECK_OK(MPI_Comm_size(sub, &got_size));
        CHECK_OK(MPI_Comm_rank(sub, &got_rank));
        CHECK_INT(got_size, size);
        CHECK_INT(got_rank, place);
        CHECK_OK(MPI_Cart_get(sub, 3, sub_dims, sub_periods, sub_coords));
        for (int i = 0; i < ndims; i++) {
            if (!remain[i]) continue;
            CHECK_INT(sub_dims[count], dims[i]);
            CHECK_INT(sub_periods[count] != 0, periods[i] != 0);
            CHECK_INT(sub_coords[count], coords[i]);
            count++;
        }
        CHECK_OK(MPI_Cartdim_get(sub, &got_ndims));
        CHECK_INT(got_ndims, count);
        /* Those in it share the coordinates that were dropped. */
        int lost = 0, least, most;
        for (int i = 0; i < ndims; i++)
            if (!remain[i]) lost = lost * dims[i] + coords[i];
        CHECK_OK(MPI_Allreduce(&lost, &least, 1, MPI_INT, MPI_MIN, sub));
        CHECK_OK(MPI_Allreduce(&lost, &most, 1, MPI_INT, MPI_MAX, sub));
        CHECK_INT(least, lost);
        CHECK_INT(most, lost);
        CHECK_OK(MPI_Comm_free(&sub));
    }
    CHECK_OK(MPI_Comm_free(&cart));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    if (check_size == 24) {
        /* Example 8.8. */
        MPI_Comm grid, sub;
        int size, ndims;
        CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 3, (int[]){2, 3, 4}, (int[]){0, 0, 0}, 0, &grid));
        CHECK_OK(MPI_Cart_sub(grid, (int[]){1, 0, 1}, &sub));
        CHECK_OK(MPI_Comm_size(sub, &size));
        CHECK_INT(size, 8);
        CHECK_OK(MPI_Comm_free(&sub));
        CHECK_OK(MPI_Cart_sub(grid, (int[]){0, 0, 1}, &sub));
        CHECK_OK(MPI_Comm_size(sub, &size));
        CHECK_INT(size, 4);
        CHECK_OK(MPI_Cartdim_get(sub, &ndims));
        CHECK_INT(ndims, 1);
        CHECK_OK(MPI_Comm_free(&sub));
        CHECK_OK(MPI_Comm_free(&grid));
        return check_end();
    }
    int square[3] = {0, 0, 0}, cube[3] = {0, 0, 0};
    CHECK_OK(MPI_Dims_create(check_size, 2, square));
    CHECK_OK(MPI_Dims_create(check_size, 3, cube));
    check_subgrids(2, square, (int[]){1, 0, 0});
    check_subgrids(3, cube, (int[]){0, 1, 1});
    return check_end();
}
