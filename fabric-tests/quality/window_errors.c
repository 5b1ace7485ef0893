/* One-sided operations outside the window, outside any epoch or of the wrong kind are named by class; the target's memory and
 * the window stay usable.
 *
 * Covers: 12.6, 12.5, 12.2.4, 12.3.4, 12.3.5
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int memory[10] = {0}, value = 1, other = 0, target = (check_rank + 1) % check_size;
    static int attached[10];
    double number = 1;
    MPI_Win win, dynamic;
    MPI_Request request;
    MPI_Aint size, mine, theirs;
    int unit;
    void *base;
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_Win_lock(12345, target, 0, win), MPI_ERR_LOCKTYPE);
    CHECK_CLASS(MPI_Win_fence(1, win), MPI_ERR_ASSERT);
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_CLASS(MPI_Rput(&value, 1, MPI_INT, target, 0, 1, MPI_INT, win, &request), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_INT, target, 10, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    CHECK_CLASS(MPI_Get(&value, 1, MPI_INT, target, (MPI_Aint)1 << 61, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
    CHECK_CLASS(MPI_Put(&value, 1, MPI_INT, target, -1, 1, MPI_INT, win), MPI_ERR_DISP);
    CHECK_CLASS(MPI_Accumulate(&number, 1, MPI_DOUBLE, target, 0, 2, MPI_INT, MPI_SUM, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Accumulate(&value, 1, MPI_INT, target, 0, 1, MPI_INT, MPI_NO_OP, win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Accumulate(&number, 1, MPI_DOUBLE, target, 0, 1, MPI_DOUBLE, MPI_BAND, win), MPI_ERR_OP);
    CHECK_CLASS(MPI_Compare_and_swap(&number, &number, &number, MPI_DOUBLE, target, 0, win), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Win_attach(win, attached, 4), MPI_ERR_RMA_FLAVOR);
    CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, 9, 1, MPI_INT, win));
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 10; i++) CHECK_INT(memory[i], i == 9);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win));
    CHECK_CLASS(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_fence(0, win), MPI_ERR_RMA_SYNC);
    CHECK_CLASS(MPI_Win_free(&win), MPI_ERR_RMA_SYNC);
    CHECK_OK(MPI_Win_unlock(target, win));
    CHECK_OK(MPI_Win_free(&win));
    /* Only the target of a dynamic window knows what is attached: the error comes with the flush. */
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &dynamic));
    CHECK_OK(MPI_Win_set_errhandler(dynamic, MPI_ERRORS_RETURN));
    CHECK_CLASS(MPI_Win_shared_query(dynamic, 0, &size, &unit, &base), MPI_ERR_RMA_FLAVOR);
    CHECK_OK(MPI_Win_attach(dynamic, attached, sizeof attached));
    CHECK_CLASS(MPI_Win_attach(dynamic, attached + 5, 4), MPI_ERR_RMA_ATTACH);
    CHECK_CLASS(MPI_Win_detach(dynamic, attached + 5), MPI_ERR_RMA_ATTACH);
    CHECK_OK(MPI_Get_address(attached, &mine));
    CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_AINT, target, 0, &theirs, 1, MPI_AINT, target, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (check_size > 1) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, target, 0, dynamic));
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, MPI_Aint_add(theirs, sizeof attached), 1, MPI_INT, dynamic));
        CHECK_CLASS(MPI_Win_flush(target, dynamic), MPI_ERR_RMA_RANGE);
        CHECK_OK(MPI_Get(&other, 1, MPI_INT, target, 16, 1, MPI_INT, dynamic));
        CHECK_CLASS(MPI_Win_flush(target, dynamic), MPI_ERR_RMA_RANGE);
        value = 55;
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, theirs, 1, MPI_INT, dynamic));
        CHECK_OK(MPI_Win_unlock(target, dynamic));
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK_INT(attached[0], 55);
    }
    CHECK_OK(MPI_Win_free(&dynamic));
    return check_end();
}
