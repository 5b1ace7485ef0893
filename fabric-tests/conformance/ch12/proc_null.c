/* MPI_PROC_NULL as a target: in epochs of every kind, and as the rank of a lock that neighbours at an edge take, too.
 *
 * Covers: 12.3, 12.5.3, 12.5.4
 * Ranks: 1 2 4
 */
#include "check.h"

static int value = 5, other = 6, result = 7;

static void operations(MPI_Win win)
{
    CHECK_OK(MPI_Put(&value, 1, MPI_INT, MPI_PROC_NULL, 1000, 1, MPI_INT, win));
    CHECK_OK(MPI_Get(&result, 1, MPI_INT, MPI_PROC_NULL, 1000, 1, MPI_INT, win));
    CHECK_OK(MPI_Accumulate(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win));
    CHECK_OK(MPI_Get_accumulate(&value, 1, MPI_INT, &result, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win));
    CHECK_OK(MPI_Fetch_and_op(&value, &result, MPI_INT, MPI_PROC_NULL, 0, MPI_SUM, win));
    CHECK_OK(MPI_Compare_and_swap(&value, &other, &result, MPI_INT, MPI_PROC_NULL, 0, win));
    CHECK_INT(result, 7);
}

static void requests(MPI_Win win)
{
    MPI_Request all[4];
    CHECK_OK(MPI_Rput(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &all[0]));
    CHECK_OK(MPI_Rget(&result, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &all[1]));
    CHECK_OK(MPI_Raccumulate(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &all[2]));
    CHECK_OK(MPI_Rget_accumulate(&value, 1, MPI_INT, &result, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, MPI_SUM, win, &all[3]));
    CHECK_OK(MPI_Waitall(4, all, MPI_STATUSES_IGNORE));
    CHECK_INT(result, 7);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int memory[2] = {-1, -1};
    MPI_Win win;
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_fence(0, win));
    operations(win);
    CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    CHECK_OK(MPI_Win_lock_all(0, win));
    operations(win);
    requests(win);
    CHECK_OK(MPI_Win_unlock_all(win));
    /* A row of processes: each writes to both neighbours, and those at the ends have one only. */
    int sides[2] = {check_rank > 0 ? check_rank - 1 : MPI_PROC_NULL, check_rank + 1 < check_size ? check_rank + 1 : MPI_PROC_NULL};
    for (int side = 0; side < 2; side++) {
        for (int kind = 0; kind < 2; kind++) {
            CHECK_OK(MPI_Win_lock(kind ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, sides[side], 0, win));
            CHECK_OK(MPI_Put(&check_rank, 1, MPI_INT, sides[side], 1 - side, 1, MPI_INT, win));
            CHECK_OK(MPI_Win_flush(sides[side], win));
            CHECK_OK(MPI_Win_flush_local(sides[side], win));
            if (sides[side] == MPI_PROC_NULL) {
                operations(win);
                requests(win);
            }
            CHECK_OK(MPI_Win_unlock(sides[side], win));
        }
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    CHECK_INT(memory[0], check_rank > 0 ? check_rank - 1 : -1);
    CHECK_INT(memory[1], check_rank + 1 < check_size ? check_rank + 1 : -1);
    CHECK_OK(MPI_Win_unlock(check_rank, win));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
