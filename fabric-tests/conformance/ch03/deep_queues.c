/* Ten thousands of unexpected messages and of posted receives, taken in the worst order; wildcards take the oldest.
 *
 * Covers: 3.5, 3.7.4
 * Ranks: 2
 * Timeout: 120
 */
#include "check.h"

#define N 20000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Request *requests = check_alloc(sizeof(MPI_Request) * N);
    int *values = check_alloc(sizeof(int) * N);
    MPI_Status status;
    /* Unexpected, taken backwards by tag. */
    if (check_rank == 0) {
        for (int i = 0; i < N; i++) {
            values[i] = 3 * i;
            CHECK_OK(MPI_Isend(&values[i], 1, MPI_INT, 1, i, MPI_COMM_WORLD, &requests[i]));
        }
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, N, MPI_COMM_WORLD));
        CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
    } else {
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, N, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = N - 1; i >= N / 2; i--) {
            int value = -1;
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, i, MPI_COMM_WORLD, &status));
            CHECK_INT(value, 3 * i);
        }
        for (int i = 0; i < N / 2; i++) {
            int value = -1;
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            CHECK_INT(value, 3 * i);
            CHECK_INT(status.MPI_TAG, i);
        }
    }
    /* Posted, satisfied backwards by tag. */
    if (check_rank == 1) {
        for (int i = 0; i < N; i++) {
            values[i] = -1;
            CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, i % 3 ? 0 : MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &requests[i]));
        }
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, N, MPI_COMM_WORLD));
        CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < N; i++) CHECK_INT(values[i], 5 * i);
    } else {
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, N, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        for (int i = N - 1; i >= 0; i--) {
            int value = 5 * i;
            CHECK_OK(MPI_Send(&value, 1, MPI_INT, 1, i, MPI_COMM_WORLD));
        }
    }
    free(requests);
    free(values);
    return check_end();
}
