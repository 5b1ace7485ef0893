/* Neighborhood collectives on grids of no to three dimensions: blocks by dimension, negative neighbor first; what is sent down comes
 * from above, also in periodic dimensions of one and two processes (examples 8.9, 8.10); blocks beyond a border are left alone. (Open MPI
 * 5.0.11 mixes the two up in small dimensions.)
 *
 * Covers: 8.6.1, 8.6.2, 8.7.1, 8.7.2, 8.8.1, 8.8.2
 * Ranks: 1 2 3 4 5 6 8 12
 */
#include "neighborhood.h"

static void check_grid(int ndims, const int *dims, const int *periods)
{
    MPI_Comm cart;
    int size = 1, sources[8], names_in[8], names_out[8];
    for (int i = 0; i < ndims; i++) size *= dims[i];
    if (size > check_size) return;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &cart));
    if (cart == MPI_COMM_NULL) return;
    for (int d = 0; d < ndims; d++) {
        CHECK_OK(MPI_Cart_shift(cart, d, 1, &sources[2 * d], &sources[2 * d + 1]));
        /* The message to the neighbor below is named 2 d, the one to the neighbor above 2 d + 1. */
        names_out[2 * d] = 2 * d, names_out[2 * d + 1] = 2 * d + 1;
        names_in[2 * d] = 2 * d + 1, names_in[2 * d + 1] = 2 * d;
    }
    for (int form = BLOCKING; form <= PERSISTENT; form++)
        check_neighborhood(cart, 2 * ndims, sources, names_in, 2 * ndims, sources, names_out, form);
    MPI_Comm copy;
    CHECK_OK(MPI_Comm_dup(cart, &copy));
    CHECK_OK(MPI_Comm_free(&cart));
    check_neighborhood(copy, 2 * ndims, sources, names_in, 2 * ndims, sources, names_out, BLOCKING);
    CHECK_OK(MPI_Comm_free(&copy));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int periodic = 0; periodic < 8; periodic++) {
        int p[3] = {periodic & 1, periodic >> 1 & 1, periodic >> 2 & 1};
        if (periodic < 2)
            for (int n = 1; n <= 4; n++) check_grid(1, &n, p);
        if (periodic < 4) {
            check_grid(2, (int[]){1, 2}, p);
            check_grid(2, (int[]){2, 2}, p);
            check_grid(2, (int[]){3, 1}, p);
            check_grid(2, (int[]){2, 3}, p);
            check_grid(2, (int[]){3, 4}, p);
        }
        check_grid(3, (int[]){2, 1, 2}, p);
        check_grid(3, (int[]){2, 2, 2}, p);
        check_grid(3, (int[]){2, 3, 2}, p);
    }
    check_grid(0, (int[]){0}, (int[]){0});
    return check_end();
}
