/* Nonblocking collectives: many outstanding at once, completed in any order and by any completion call, mixed with
 * messages, progressing inside other blocking calls.
 *
 * Covers: 6.12, 2.9
 * Ranks: 1 2 3 5
 */
#include "check.h"

#define N 1000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank;
    static int bcast[N], in[8 * N], sum[N], most[N], all[8 * N], given[N], gathered[8 * N], swapped[8 * N], scan[N];
    for (int round = 0; round < 20; round++) {
        int root = round % n, k = 0, got = -1;
        MPI_Request requests[12];
        for (int i = 0; i < N; i++) bcast[i] = me == root ? round + i : -1;
        for (int i = 0; i < n * N; i++) in[i] = me * 100000 + i;
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, (me + 1) % n, round, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Ibcast(bcast, N, MPI_INT, root, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Iallreduce(in, sum, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Ireduce(in, most, N, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Iallgather(in, N, MPI_INT, all, N, MPI_INT, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Iscatter(in, N, MPI_INT, given, N, MPI_INT, root, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Igather(in, N, MPI_INT, gathered, N, MPI_INT, root, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Ialltoall(in, N, MPI_INT, swapped, N, MPI_INT, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Iscan(in, scan, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[k++]));
        CHECK_OK(MPI_Send(&round, 1, MPI_INT, (me + n - 1) % n, round, MPI_COMM_WORLD));
        if (round % 3 == 0)
            CHECK_OK(MPI_Waitall(k, requests, MPI_STATUSES_IGNORE));
        else if (round % 3 == 1)
            for (int i = k - 1; i >= 0; i--) CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        else
            for (int left = k, flag, index; left > 0;) {
                CHECK_OK(MPI_Testany(k, requests, &index, &flag, MPI_STATUS_IGNORE));
                left -= flag && index != MPI_UNDEFINED;
            }
        for (int i = 0; i < k; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
        CHECK_INT(got, round);
        for (int i = 0; i < N; i += 37) {
            CHECK_INT(bcast[i], round + i);
            CHECK_INT(sum[i], n * (n - 1) / 2 * 100000 + n * i);
            if (me == root) CHECK_INT(most[i], (n - 1) * 100000 + i);
            CHECK_INT(given[i], root * 100000 + me * N + i);
            CHECK_INT(scan[i], me * (me + 1) / 2 * 100000 + (me + 1) * i);
            for (int r = 0; r < n; r++) {
                CHECK_INT(all[r * N + i], r * 100000 + i);
                if (me == root) CHECK_INT(gathered[r * N + i], r * 100000 + i);
                CHECK_INT(swapped[r * N + i], r * 100000 + me * N + i);
            }
        }
    }
    /* A barrier goes on while its members are blocked in a receive. */
    MPI_Request barrier;
    CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &barrier));
    if (me == 0) {
        CHECK_OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
        for (int r = 1; r < n; r++) CHECK_OK(MPI_Send(NULL, 0, MPI_INT, r, 99, MPI_COMM_WORLD));
    } else {
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
    }
    return check_end();
}
