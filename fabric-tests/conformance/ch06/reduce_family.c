/* MPI_Reduce to every root, MPI_Allreduce, MPI_Scan and MPI_Exscan with exact integer sums of many counts, with and
 * without MPI_IN_PLACE; send buffers are only read.
 *
 * Covers: 6.9, 6.11, 2.3
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
        size_t bytes = sizeof(long) * (size_t)(count + 1);
        long *mine = check_alloc(bytes), *result = check_alloc(bytes);
        for (int i = 0; i <= count; i++) mine[i] = give(me, i);
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int root = 0; root < n; root++) {
                for (int i = 0; i <= count; i++) result[i] = -7;
                if (me != root) /* The receive buffer means nothing here. */
                    CHECK_OK(MPI_Reduce(mine, NULL, count, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD));
                else if (in_place) {
                    memcpy(result, mine, sizeof(long) * (size_t)count);
                    CHECK_OK(MPI_Reduce(MPI_IN_PLACE, result, count, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD));
                } else
                    CHECK_OK(MPI_Reduce(mine, result, count, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD));
                if (me == root)
                    for (int i = 0; i < count; i++) CHECK_INT(result[i], sum_below(n, i));
                CHECK_INT(result[count], -7);
            }
            for (int kind = 0; kind < 3; kind++) {
                for (int i = 0; i <= count; i++) result[i] = -7;
                if (in_place) memcpy(result, mine, sizeof(long) * (size_t)count);
                const void *from = in_place ? MPI_IN_PLACE : (const void *)mine;
                if (kind == 0)
                    CHECK_OK(MPI_Allreduce(from, result, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
                else if (kind == 1)
                    CHECK_OK(MPI_Scan(from, result, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
                else
                    CHECK_OK(MPI_Exscan(from, result, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
                int upto = kind == 0 ? n : kind == 1 ? me + 1 : me;
                if (kind != 2 || me > 0)
                    for (int i = 0; i < count; i++) CHECK_INT(result[i], sum_below(upto, i));
                else if (in_place)
                    for (int i = 0; i < count; i++) CHECK_INT(result[i], mine[i]);
                CHECK_INT(result[count], -7);
            }
            for (int i = 0; i <= count; i++) CHECK_INT(mine[i], give(me, i));
        }
        free(mine);
        free(result);
    }
    return check_end();
}
