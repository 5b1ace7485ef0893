/* Operations with requests, completed beside others; MPI_PROC_NULL as target.
 *
 * Covers: 12.3.5, 12.3, 3.7.5
 * Ranks: 1 2
 */
#include "check.h"

#define N 50000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int target = (check_rank + 1) % check_size, source = (check_rank + check_size - 1) % check_size;
    int *memory;
    static int out[N], in[N], old[N];
    MPI_Win win;
    MPI_Request requests[5];
    MPI_Status statuses[5];
    CHECK_OK(MPI_Win_allocate(2 * N * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    memset(memory, 0, 2 * N * sizeof(int));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock_all(0, win));
    for (int n = 1; n <= N; n = n * 7 + 3) {
        for (int i = 0; i < n; i++) out[i] = check_rank + i + n;
        CHECK_OK(MPI_Rput(out, n, MPI_INT, target, 0, n, MPI_INT, win, &requests[0]));
        CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK(requests[0] == MPI_REQUEST_NULL);
        CHECK_OK(MPI_Win_flush(target, win));
        CHECK_OK(MPI_Rget(in, n, MPI_INT, target, 0, n, MPI_INT, win, &requests[0]));
        CHECK_OK(MPI_Raccumulate(out, n, MPI_INT, target, N, n, MPI_INT, MPI_REPLACE, win, &requests[1]));
        CHECK_OK(MPI_Rget_accumulate(out, n, MPI_INT, old, n, MPI_INT, target, N, n, MPI_INT, MPI_SUM, win, &requests[2]));
        CHECK_OK(MPI_Isend(&n, 1, MPI_INT, target, 3, MPI_COMM_WORLD, &requests[3]));
        int got = -1;
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, source, 3, MPI_COMM_WORLD, &requests[4]));
        CHECK_OK(MPI_Waitall(5, requests, statuses));
        CHECK_INT(got, n);
        for (int i = 0; i < n; i++)
            if (in[i] != check_rank + i + n || old[i] != check_rank + i + n) {
                CHECK_FAIL("%d ints, element %d: %d and %d", n, i, in[i], old[i]);
                break;
            }
    }
    CHECK_OK(MPI_Rput(out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[0]));
    CHECK_OK(MPI_Rget(in, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Put(out, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
