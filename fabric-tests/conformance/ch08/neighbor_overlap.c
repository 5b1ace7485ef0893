/* Many neighborhood collectives under way at once, mixed with others on the same communicator, waited for in another order; large
 * blocks; the example of figures 8.4 to 8.7: sums over the neighbors of a torus until all have the same. (Open MPI 5.0.11: as for
 * neighbor_cart.)
 *
 * Covers: 8.7, 8.8, 6.12, 6.13, 8.9
 * Ranks: 2 4 5 6
 * Timeout: 120
 */
#include "check.h"

enum { ROUNDS = 20, LARGE = 100000 };

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int dims[2] = {0, 0}, around[4], me = check_rank;
    MPI_Comm torus;
    CHECK_OK(MPI_Dims_create(check_size, 2, dims));
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, (int[]){1, 1}, 0, &torus));
    CHECK_OK(MPI_Cart_shift(torus, 0, 1, &around[0], &around[1]));
    CHECK_OK(MPI_Cart_shift(torus, 1, 1, &around[2], &around[3]));
    MPI_Request requests[2 * ROUNDS];
    int sent[ROUNDS][4], got[ROUNDS][4], sums[ROUNDS], ones[ROUNDS];
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < 4; i++) sent[r][i] = 10000 * r + 10 * me + i;
        ones[r] = r;
        CHECK_OK(MPI_Ineighbor_alltoall(sent[r], 1, MPI_INT, got[r], 1, MPI_INT, torus, &requests[2 * r]));
        CHECK_OK(MPI_Iallreduce(&ones[r], &sums[r], 1, MPI_INT, MPI_SUM, torus, &requests[2 * r + 1]));
    }
    for (int r = 2 * ROUNDS - 1; r >= 0; r--) CHECK_OK(MPI_Wait(&requests[r], MPI_STATUS_IGNORE));
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < 4; i++) CHECK_INT(got[r][i], 10000 * r + 10 * around[i] + (i ^ 1));
        CHECK_INT(sums[r], r * check_size);
    }

    /* Persistent ones on one communicator, started in another order by every process. */
    enum { KEPT = 5 };
    MPI_Request kept[KEPT];
    for (int r = 0; r < KEPT; r++) CHECK_OK(MPI_Neighbor_alltoall_init(sent[r], 1, MPI_INT, got[r], 1, MPI_INT, torus, MPI_INFO_NULL, &kept[r]));
    for (int round = 1; round < 4; round++) {
        for (int r = 0; r < KEPT; r++)
            for (int i = 0; i < 4; i++) sent[r][i] = 100000 * round + 1000 * r + 10 * me + i, got[r][i] = -1;
        for (int turn = 0; turn < KEPT; turn++) CHECK_OK(MPI_Start(&kept[(turn * (me % 4 + 1) + round) % KEPT]));
        CHECK_OK(MPI_Waitall(KEPT, kept, MPI_STATUSES_IGNORE));
        for (int r = 0; r < KEPT; r++)
            for (int i = 0; i < 4; i++) CHECK_INT(got[r][i], 100000 * round + 1000 * r + 10 * around[i] + (i ^ 1));
    }
    for (int r = 0; r < KEPT; r++) CHECK_OK(MPI_Request_free(&kept[r]));

    int *out = check_alloc(sizeof(int) * 4 * LARGE), *in = check_alloc(sizeof(int) * 4 * LARGE);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < LARGE; j++) out[i * LARGE + j] = 8 * j + 1000 * me + i;
    CHECK_OK(MPI_Neighbor_alltoall(out, LARGE, MPI_INT, in, LARGE, MPI_INT, torus));
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < LARGE; j += 997) CHECK_INT(in[i * LARGE + j], 8 * j + 1000 * around[i] + (i ^ 1));
    free(out);
    free(in);

    double value = me, near[4], least, most, mean;
    for (int step = 0; step < 200; step++) {
        CHECK_OK(MPI_Neighbor_allgather(&value, 1, MPI_DOUBLE, near, 1, MPI_DOUBLE, torus));
        value = (value + near[0] + near[1] + near[2] + near[3]) / 5;
    }
    mean = (check_size - 1) / 2.0;
    CHECK_OK(MPI_Allreduce(&value, &least, 1, MPI_DOUBLE, MPI_MIN, torus));
    CHECK_OK(MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, torus));
    CHECK(most - least < 1e-6 && most - mean < 1e-6 && mean - least < 1e-6);

    CHECK_CLASS(MPI_Neighbor_allgather(&value, 1, MPI_DOUBLE, near, 1, MPI_DOUBLE, MPI_COMM_WORLD), MPI_ERR_TOPOLOGY);
    CHECK_OK(MPI_Comm_free(&torus));
    return check_end();
}
