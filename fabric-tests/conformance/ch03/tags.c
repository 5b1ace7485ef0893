/* Tags from 0 to MPI_TAG_UB, which is at least 32767: each selects its message.
 *
 * Covers: 3.2.3, 9.1.2
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int *upper, flag = 0, peer = check_size == 1 ? 0 : 1 - check_rank;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &flag));
    CHECK(flag);
    CHECK(*upper >= 32767);
    int tags[] = {0, 1, 2, 255, 256, 32766, 32767, *upper / 2, *upper - 1, *upper};
    enum { N = sizeof tags / sizeof *tags };
    MPI_Request requests[N];
    MPI_Status status;
    for (int i = 0; i < N; i++) CHECK_OK(MPI_Isend(&tags[i], 1, MPI_INT, peer, tags[i], MPI_COMM_WORLD, &requests[i]));
    for (int i = N - 1; i >= 0; i--) {
        int value = -1;
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, peer, tags[i], MPI_COMM_WORLD, &status));
        CHECK_INT(value, tags[i]);
        CHECK_INT(status.MPI_TAG, tags[i]);
    }
    CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
    CHECK(MPI_ANY_TAG < 0 || MPI_ANY_TAG > *upper);
    CHECK(MPI_ANY_SOURCE < 0 || MPI_ANY_SOURCE >= check_size);
    return check_end();
}
