/* MPI_Cart_shift in every direction by steps short and long, up and down, over borders and around, against ranks computed here; the
 * skewing of example 8.7.
 *
 * Covers: 8.5.6
 * Ranks: 1 2 4 6 8 12
 */
#include "check.h"

static int at(const int *dims, const int *periods, int ndims, const int *coords, int direction, long step)
{
    int rank = 0;
    for (int i = 0; i < ndims; i++) {
        long c = coords[i] + (i == direction ? step : 0);
        if (periods[i]) c = ((c % dims[i]) + dims[i]) % dims[i];
        if (c < 0 || c >= dims[i]) return MPI_PROC_NULL;
        rank = rank * dims[i] + (int)c;
    }
    return rank;
}

static void check_shifts(int ndims, int *dims, int *periods)
{
    MPI_Comm cart;
    int rank, coords[3];
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &cart));
    if (cart == MPI_COMM_NULL) return;
    CHECK_OK(MPI_Comm_rank(cart, &rank));
    CHECK_OK(MPI_Cart_coords(cart, rank, ndims, coords));
    static const int steps[] = {1, -1, 2, -2, 3, -3, 5, 7, -11, 1000, -1001};
    for (int direction = 0; direction < ndims; direction++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            int source = -9, dest = -9, heard = -1;
            CHECK_OK(MPI_Cart_shift(cart, direction, steps[i], &source, &dest));
            CHECK_INT(source, at(dims, periods, ndims, coords, direction, -(long)steps[i]));
            CHECK_INT(dest, at(dims, periods, ndims, coords, direction, steps[i]));
            CHECK_OK(MPI_Sendrecv(&rank, 1, MPI_INT, dest, 0, &heard, 1, MPI_INT, source, 0, cart, MPI_STATUS_IGNORE));
            CHECK_INT(heard, source == MPI_PROC_NULL ? -1 : source);
        }
    CHECK_OK(MPI_Comm_free(&cart));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size;
    for (int periodic = 0; periodic < 8; periodic++) {
        int periods[3] = {periodic & 1, periodic >> 1 & 1, periodic >> 2 & 1};
        int square[3] = {0, 0, 0}, cube[3] = {0, 0, 0};
        check_shifts(1, &n, periods);
        CHECK_OK(MPI_Dims_create(n, 2, square));
        check_shifts(2, square, periods);
        CHECK_OK(MPI_Dims_create(n, 3, cube));
        check_shifts(3, cube, periods);
    }

    /* Example 8.7: column i moves down by i, column 0 stays. */
    int dims[2] = {0, 0}, coords[2], source, dest;
    MPI_Comm torus;
    CHECK_OK(MPI_Dims_create(n, 2, dims));
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, (int[]){1, 1}, 0, &torus));
    CHECK_OK(MPI_Cart_coords(torus, check_rank, 2, coords));
    CHECK_OK(MPI_Cart_shift(torus, 0, coords[1], &source, &dest));
    int value = 100 * coords[0] + coords[1];
    CHECK_OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, dest, 0, source, 0, torus, MPI_STATUS_IGNORE));
    CHECK_INT(value, 100 * (((coords[0] - coords[1]) % dims[0] + dims[0]) % dims[0]) + coords[1]);
    CHECK_OK(MPI_Comm_free(&torus));
    return check_end();
}
