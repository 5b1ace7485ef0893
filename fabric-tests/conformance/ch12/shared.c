/* Shared windows: contiguous in rank order, loads and stores seen by all, operations on the same memory.
 *
 * Covers: 12.2.3, 12.4, 12.5.4
 * Ranks: 1 2 4
 * Node: one
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm node;
    MPI_Win win;
    int *mine, *base, unit, n = 10 + check_rank;
    MPI_Aint size;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    /* Rank 0 has nothing. */
    if (check_rank == 0) n = 0;
    CHECK_OK(MPI_Win_allocate_shared((MPI_Aint)sizeof(int) * n, sizeof(int), MPI_INFO_NULL, node, &mine, &win));
    CHECK_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, win));
    for (int i = 0; i < n; i++) mine[i] = 1000 * check_rank + i;
    CHECK_OK(MPI_Win_sync(win));
    CHECK_OK(MPI_Barrier(node));
    CHECK_OK(MPI_Win_sync(win));
    int *expected = NULL;
    for (int r = 0; r < check_size; r++) {
        int length = r == 0 ? 0 : 10 + r;
        CHECK_OK(MPI_Win_shared_query(win, r, &size, &unit, &base));
        CHECK_INT(size, (MPI_Aint)sizeof(int) * length);
        CHECK_INT(unit, sizeof(int));
        if (length == 0) continue;
        if (expected != NULL) CHECK(base == expected);
        expected = base + length;
        for (int i = 0; i < length; i++) CHECK_INT(base[i], 1000 * r + i);
    }
    if (check_size > 1) {
        CHECK_OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &size, &unit, &base));
        CHECK_INT(size, (MPI_Aint)sizeof(int) * 11);
        CHECK_INT(base[1], 1001);
    }
    CHECK_OK(MPI_Barrier(node));
    /* Operations meet the same memory. */
    int target = (check_rank + 1) % check_size, source = (check_rank + check_size - 1) % check_size;
    int value = 7000 + check_rank;
    if (target != 0) CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, 2, 1, MPI_INT, win));
    CHECK_OK(MPI_Win_flush_all(win));
    CHECK_OK(MPI_Barrier(node));
    CHECK_OK(MPI_Win_sync(win));
    if (n > 0) CHECK_INT(mine[2], 7000 + source);
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Comm_free(&node));
    return check_end();
}
