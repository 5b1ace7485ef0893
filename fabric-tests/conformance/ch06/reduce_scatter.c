/* MPI_Reduce_scatter and MPI_Reduce_scatter_block with exact integer sums, equal and unequal blocks, with and without
 * MPI_IN_PLACE. (MPICH 5.0 stops at an assertion when a block in place overlaps its result.)
 *
 * Covers: 6.10
 * Ranks: 1 2 3 4 5 8
 * Timeout: 120
 */
#include "check.h"

static const int sizes[] = {0, 1, 2, 7, 64, 1000, 4099, 70000};

static long give(int rank, int i)
{
    return (rank + 1) * 1000003L + (long)i * (rank + 2);
}

static long sum_below(int ranks, int i)
{
    long sum = 0;
    for (int r = 0; r < ranks; r++) sum += give(r, i);
    return sum;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank;
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int count = sizes[s];
        /* Scattered results: rank r gets count / n + r % 2 elements. */
        int counts[16], offset = 0, all = 0, block = count / n;
        for (int r = 0; r < n; r++) {
            counts[r] = block + r % 2;
            if (r < me) offset += counts[r];
            all += counts[r];
        }
        long *mine = check_alloc(sizeof(long) * (size_t)(all + 1));
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int i = 0; i <= all; i++) mine[i] = give(me, i);
            long *result = check_alloc(sizeof(long) * (size_t)(all + 1));
            for (int i = 0; i <= all; i++) result[i] = in_place ? mine[i] : -7;
            CHECK_OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : (void *)mine, result, counts, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
            for (int i = 0; i < counts[me]; i++) CHECK_INT(result[i], sum_below(n, offset + i));
            if (!in_place) CHECK_INT(result[counts[me]], -7);
            for (int i = 0; i <= all; i++) result[i] = in_place ? mine[i] : -7;
            CHECK_OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : (void *)mine, result, block, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
            for (int i = 0; i < block; i++) CHECK_INT(result[i], sum_below(n, me * block + i));
            if (!in_place) CHECK_INT(result[block], -7);
            free(result);
        }
        free(mine);
    }
    return check_end();
}
