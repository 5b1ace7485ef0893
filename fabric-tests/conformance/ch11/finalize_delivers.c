/* MPI_Finalize completes what was locally complete: messages sent before it arrive though their sender is already in it.
 * (MPICH 5.0 hangs.)
 *
 * Covers: 11.2.2, 2.9
 * Ranks: 2 3 5
 */
#include "check.h"

#define N 300

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int out[N];
    MPI_Request request;
    if (check_rank != 0) {
        for (int i = 0; i < N; i++) {
            out[i] = i;
            /* Freed requests: nobody waits for these. */
            CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, 0, check_rank, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Request_free(&request));
        }
    } else {
        usleep(100000);
        for (int source = check_size - 1; source > 0; source--) {
            for (int i = 0; i < N; i++) {
                int got = -1;
                CHECK_OK(MPI_Recv(&got, 1, MPI_INT, source, source, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_INT(got, i);
            }
        }
    }
    return check_end();
}
