/* Many operations before one flush: short puts, long puts, gets and fetching sums, far more than a device's queues hold. Every one of them is
 * done when the flush returns (12.5.4), and nothing but memory limits how many there may be.
 *
 * Covers: 12.3.1, 12.3.2, 12.3.4, 12.5.4
 * Ranks: 2 3
 */
#include "check.h"

enum { ROW = 20000, SUMS = 3000, LONG = 9000, LONGS = 300 };

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int64_t *memory, one = 1, total = 0;
    int64_t *values = malloc(ROW * sizeof *values), *found = malloc(ROW * sizeof *found);
    int64_t *wide = malloc(LONG * sizeof *wide), *seen = malloc(SUMS * sizeof *seen);
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate((ROW + LONG + 1) * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    for (int i = 0; i < ROW + LONG + 1; i++)
        memory[i] = -1;
    memory[ROW + LONG] = 0;
    for (int i = 0; i < ROW; i++)
        values[i] = 1000000 * (check_rank + 1) + i;
    for (int i = 0; i < LONG; i++)
        wide[i] = -i - check_rank;
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < ROW; i++) {
        CHECK_OK(MPI_Put(&values[i], 1, MPI_INT64_T, right, i, 1, MPI_INT64_T, win));
        if (i % (ROW / LONGS) == 0)
            CHECK_OK(MPI_Put(wide, LONG, MPI_INT64_T, right, ROW, LONG, MPI_INT64_T, win));
    }
    for (int i = 0; i < SUMS; i++)
        CHECK_OK(MPI_Fetch_and_op(&one, &seen[i], MPI_INT64_T, right, ROW + LONG, MPI_SUM, win));
    CHECK_OK(MPI_Win_flush(right, win));
    for (int i = 0; i < ROW; i++)
        CHECK_OK(MPI_Get(&found[i], 1, MPI_INT64_T, right, i, 1, MPI_INT64_T, win));
    CHECK_OK(MPI_Win_flush_all(win));
    for (int i = 0; i < ROW; i++)
        total += found[i] != values[i];
    CHECK_INT(total, 0);
    for (int i = 0; i < SUMS; i++)
        total += seen[i] != i;
    CHECK_INT(total, 0);
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
    for (int i = 0; i < ROW; i++)
        total += memory[i] != 1000000 * (left + 1) + i;
    for (int i = 0; i < LONG; i++)
        total += memory[ROW + i] != -i - left;
    CHECK_INT(total, 0);
    CHECK_INT(memory[ROW + LONG], SUMS);
    CHECK_OK(MPI_Win_unlock(check_rank, win));
    CHECK_OK(MPI_Win_free(&win));
    free(values);
    free(found);
    free(wide);
    free(seen);
    return check_end();
}
