/* Dynamic windows: memory attached and detached at any time, addressed absolutely.
 *
 * Covers: 12.2.4, 12.2.6
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int target = (check_rank + 1) % check_size, source = (check_rank + check_size - 1) % check_size;
    static int first[100], second[100];
    MPI_Aint mine[2], theirs[2], *size;
    MPI_Win win;
    void *base = &mine;
    int flag, value;
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == MPI_BOTTOM);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    CHECK(flag && *size == 0);
    CHECK_OK(MPI_Win_attach(win, first, sizeof first));
    CHECK_OK(MPI_Win_attach(win, second, sizeof second));
    CHECK_OK(MPI_Get_address(first, &mine[0]));
    CHECK_OK(MPI_Get_address(second, &mine[1]));
    CHECK_OK(MPI_Sendrecv(mine, 2, MPI_AINT, source, 0, theirs, 2, MPI_AINT, target, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
    for (int i = 0; i < 100; i++) {
        value = 1000 * check_rank + i;
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, MPI_Aint_add(theirs[i % 2], (MPI_Aint)sizeof(int) * i), 1, MPI_INT, win));
        CHECK_OK(MPI_Win_flush_local(target, win));
    }
    CHECK_OK(MPI_Win_unlock(target, win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 100; i++) CHECK_INT((i % 2 ? second : first)[i], 1000 * source + i);
    CHECK_OK(MPI_Win_detach(win, first));
    CHECK_OK(MPI_Win_attach(win, first, 10));
    CHECK_OK(MPI_Win_detach(win, second));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
