/* MPI_Cart_create: grids of one to four dimensions and what can be asked of them; row-major numbering; ranks stay with reorder =
 * false; processes beyond the grid get MPI_COMM_NULL; the arguments are copied; name, attributes and info do not propagate; the
 * communicator works.
 *
 * Covers: 8.2, 8.3, 8.5.1, 8.5.5
 * Ranks: 1 2 3 4 6 8 12
 */
#include "check.h"

static void check_grid(int ndims, const int *given_dims, const int *given_periods)
{
    int dims[4], periods[4], size = 1, status, result;
    memcpy(dims, given_dims, sizeof(int) * (size_t)ndims);
    memcpy(periods, given_periods, sizeof(int) * (size_t)ndims);
    for (int i = 0; i < ndims; i++) size *= dims[i];
    if (size > check_size) return;
    MPI_Comm cart;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, ndims, dims, periods, 0, &cart));
    memset(dims, 0x55, sizeof dims);
    memset(periods, 0x55, sizeof periods);
    if (check_rank >= size) {
        CHECK(cart == MPI_COMM_NULL);
        return;
    }
    CHECK(cart != MPI_COMM_NULL);
    int rank, members, count = -1;
    CHECK_OK(MPI_Comm_rank(cart, &rank));
    CHECK_OK(MPI_Comm_size(cart, &members));
    CHECK_INT(rank, check_rank);
    CHECK_INT(members, size);
    CHECK_OK(MPI_Topo_test(cart, &status));
    CHECK_INT(status, MPI_CART);
    if (size == check_size) {
        CHECK_OK(MPI_Comm_compare(cart, MPI_COMM_WORLD, &result));
        CHECK_INT(result, MPI_CONGRUENT);
    }
    CHECK_OK(MPI_Cartdim_get(cart, &count));
    CHECK_INT(count, ndims);

    /* More room than needed is left alone. */
    int got_dims[6], got_periods[6], got_coords[6], coords[6];
    for (int i = 0; i < 6; i++) got_dims[i] = got_periods[i] = got_coords[i] = coords[i] = -77;
    CHECK_OK(MPI_Cart_get(cart, 6, got_dims, got_periods, got_coords));
    for (int i = 0; i < ndims; i++) {
        CHECK_INT(got_dims[i], given_dims[i]);
        CHECK_INT(got_periods[i] != 0, given_periods[i] != 0);
    }
    for (int i = ndims; i < 6; i++) CHECK_INT(got_dims[i], -77);

    for (int other = 0; other < size; other++) {
        CHECK_OK(MPI_Cart_coords(cart, other, ndims, coords));
        int row_major = 0, back = -1;
        for (int i = 0; i < ndims; i++) {
            CHECK(coords[i] >= 0 && coords[i] < given_dims[i]);
            row_major = row_major * given_dims[i] + coords[i];
            if (other == rank) CHECK_INT(got_coords[i], coords[i]);
        }
        CHECK_INT(row_major, other);
        CHECK_OK(MPI_Cart_rank(cart, coords, &back));
        CHECK_INT(back, other);
        /* Periodic coordinates come back from anywhere. */
        for (int i = 0; i < ndims; i++)
            for (int turns = -3; given_periods[i] && turns <= 3; turns++) {
                int away[6];
                memcpy(away, coords, sizeof away);
                away[i] += turns * given_dims[i];
                CHECK_OK(MPI_Cart_rank(cart, away, &back));
                CHECK_INT(back, other);
            }
    }
    int sum = 0, one = 1;
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, cart));
    CHECK_INT(sum, size);
    CHECK_OK(MPI_Comm_free(&cart));
    CHECK(cart == MPI_COMM_NULL);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size;
    check_grid(1, (int[]){n}, (int[]){1});
    check_grid(1, (int[]){n}, (int[]){0});
    check_grid(1, (int[]){1}, (int[]){0});
    check_grid(1, (int[]){n > 1 ? n - 1 : 1}, (int[]){1});
    check_grid(2, (int[]){2, 2}, (int[]){0, 1});
    check_grid(2, (int[]){2, 3}, (int[]){1, 0});
    check_grid(2, (int[]){3, 2}, (int[]){1, 5});
    check_grid(2, (int[]){1, n}, (int[]){1, -1});
    check_grid(3, (int[]){2, 2, 2}, (int[]){1, 1, 1});
    check_grid(3, (int[]){2, 3, 2}, (int[]){0, 1, 0});
    check_grid(4, (int[]){1, 2, 1, 3}, (int[]){1, 0, 1, 1});

    /* Nothing but the error handler comes along. */
    MPI_Comm parent, cart;
    int keyval, flag = -1, length;
    char name[MPI_MAX_OBJECT_NAME];
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    CHECK_OK(MPI_Comm_set_attr(parent, keyval, &keyval));
    CHECK_OK(MPI_Comm_set_name(parent, "parent"));
    CHECK_OK(MPI_Cart_create(parent, 1, &n, &(int){0}, 0, &cart));
    CHECK_OK(MPI_Comm_get_attr(cart, keyval, &(void *){NULL}, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Comm_get_name(cart, name, &length));
    CHECK_INT(length, 0);
    CHECK_OK(MPI_Topo_test(parent, &flag));
    CHECK_INT(flag, MPI_UNDEFINED);
    /* A grid of a grid, of a part of it, in another order. */
    MPI_Comm again;
    CHECK_OK(MPI_Cart_create(cart, 2, (int[]){1, 1}, (int[]){0, 0}, 0, &again));
    CHECK((again != MPI_COMM_NULL) == (check_rank == 0));
    if (again != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&again));
    CHECK_OK(MPI_Comm_free(&cart));
    MPI_Comm backwards;
    CHECK_OK(MPI_Comm_split(parent, 0, -check_rank, &backwards));
    CHECK_OK(MPI_Cart_create(backwards, 1, &n, &(int){1}, 0, &cart));
    int rank, dest, source, heard = -1;
    CHECK_OK(MPI_Comm_rank(cart, &rank));
    CHECK_INT(rank, n - 1 - check_rank);
    CHECK_OK(MPI_Cart_shift(cart, 0, 1, &source, &dest));
    CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, dest, 3, &heard, 1, MPI_INT, source, 3, cart, MPI_STATUS_IGNORE));
    CHECK_INT(heard, (check_rank + 1) % n);
    CHECK_OK(MPI_Comm_free(&cart));
    CHECK_OK(MPI_Comm_free(&backwards));
    CHECK_OK(MPI_Comm_free(&parent));
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    return check_end();
}
