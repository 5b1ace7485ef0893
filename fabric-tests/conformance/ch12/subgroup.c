/* Windows over communicators whose ranks are not those of the world, several alive at once, made and freed many times.
 *
 * Covers: 12.2, 12.2.5, 12.5.1, 12.5.2, 12.5.3
 * Ranks: 2 3 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comm;
    int rank, size;
    /* Odd and even ranks apart, each backwards. */
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, -check_rank, &comm));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int turn = 0; turn < 40; turn++) {
        int *a, b[8] = {0}, value = 100 * turn + check_rank, got = -1;
        MPI_Win first, second;
        CHECK_OK(MPI_Win_allocate(8 * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &a, &first));
        CHECK_OK(MPI_Win_create(b, rank == 0 ? sizeof b : 0, sizeof(int), MPI_INFO_NULL, comm, &second));
        for (int i = 0; i < 8; i++) a[i] = -1;
        CHECK_OK(MPI_Win_fence(0, first));
        int target = (rank + 1) % size, source = (rank + size - 1) % size;
        CHECK_OK(MPI_Put(&value, 1, MPI_INT, target, 3, 1, MPI_INT, first));
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, second));
        CHECK_OK(MPI_Accumulate(&value, 1, MPI_INT, 0, 5, 1, MPI_INT, MPI_SUM, second));
        CHECK_OK(MPI_Win_unlock(0, second));
        CHECK_OK(MPI_Win_fence(0, first));
        int source_in_world = check_rank % 2 + 2 * (size - 1 - source);
        CHECK_INT(a[3], 100 * turn + source_in_world);
        CHECK_INT(a[2], -1);
        CHECK_OK(MPI_Barrier(comm));
        CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, second));
        CHECK_OK(MPI_Get(&got, 1, MPI_INT, 0, 5, 1, MPI_INT, second));
        CHECK_OK(MPI_Win_unlock(0, second));
        int sum = 0;
        for (int i = 0; i < size; i++) sum += 100 * turn + check_rank % 2 + 2 * i;
        CHECK_INT(got, sum);
        if (turn % 2) {
            CHECK_OK(MPI_Win_free(&first));
            CHECK_OK(MPI_Win_free(&second));
        } else {
            CHECK_OK(MPI_Win_free(&second));
            CHECK_OK(MPI_Win_free(&first));
        }
    }
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
