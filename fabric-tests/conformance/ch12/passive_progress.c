/* A target that is blocked in calls that have nothing to do with the window serves its origins.
 *
 * Covers: 12.5.3, 2.9
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int memory[100000], out[100000];
    MPI_Win win;
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    if (check_rank == 0) {
        for (int i = 0; i < 100000; i++) out[i] = i;
        for (int round = 0; round < 10; round++) {
            CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
            CHECK_OK(MPI_Put(out, 100000, MPI_INT, 1, 0, 100000, MPI_INT, win));
            CHECK_OK(MPI_Accumulate(out, 100000, MPI_INT, 1, 0, 100000, MPI_INT, MPI_MAX, win));
            CHECK_OK(MPI_Win_unlock(1, win));
        }
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
    } else {
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
        CHECK_INT(memory[99999], 99999);
        CHECK_OK(MPI_Win_unlock(1, win));
    }
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
