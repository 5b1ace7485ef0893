/* An exclusive lock makes get-change-put one step; shared locks with atomic operations; flush within an epoch.
 *
 * Covers: 12.5.3, 12.5.4, 12.3.2, 12.7.1
 * Ranks: 1 2 4
 */
#include "check.h"

#define TURNS 100

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    long *memory, value, one = 1, old, sum = 0;
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate(4 * sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, check_rank, 0, win));
    for (int i = 0; i < 4; i++) memory[i] = 0;
    CHECK_OK(MPI_Win_unlock(check_rank, win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < TURNS; i++) {
        for (int t = 0; t < check_size; t++) {
            CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t, 0, win));
            CHECK_OK(MPI_Get(&value, 1, MPI_LONG, t, 0, 1, MPI_LONG, win));
            CHECK_OK(MPI_Win_flush(t, win));
            value++;
            CHECK_OK(MPI_Put(&value, 1, MPI_LONG, t, 0, 1, MPI_LONG, win));
            CHECK_OK(MPI_Win_unlock(t, win));
        }
    }
    CHECK_OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < TURNS; i++)
        for (int t = 0; t < check_size; t++) {
            CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_LONG, t, 1, MPI_SUM, win));
            CHECK_OK(MPI_Win_flush_local(t, win));
            CHECK(old >= sum / check_size && old < (long)TURNS * check_size);
            CHECK_OK(MPI_Accumulate(&one, 1, MPI_LONG, t, 2, 1, MPI_LONG, MPI_SUM, win));
            sum += old >= 0;
        }
    CHECK_OK(MPI_Win_flush_all(win));
    CHECK_OK(MPI_Win_sync(win));
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    CHECK_INT(memory[0], TURNS * check_size);
    CHECK_INT(memory[1], TURNS * check_size);
    CHECK_INT(memory[2], TURNS * check_size);
    CHECK_OK(MPI_Win_unlock(check_rank, win));
    /* Locks of several targets at once. */
    for (int t = 0; t < check_size; t++) CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, t, MPI_MODE_NOCHECK, win));
    value = 10 + check_rank;
    for (int t = 0; t < check_size; t++) CHECK_OK(MPI_Accumulate(&value, 1, MPI_LONG, t, 3, 1, MPI_LONG, MPI_MAX, win));
    for (int t = check_size - 1; t >= 0; t--) CHECK_OK(MPI_Win_unlock(t, win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_INT(memory[3], 10 + check_size - 1);
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
