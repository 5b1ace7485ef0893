/* MPI_Finalize completes large sends whose requests were freed (Example 11.5): the receiver gets them while their sender is
 * in MPI_Finalize.
 *
 * Covers: 11.2.2, 2.9
 * Ranks: 2 3 5
 */
#include "check.h"

#define N 3

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int out[N][50000], in[50000];
    MPI_Request request;
    if (check_rank != 0) {
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < 50000; k++) out[i][k] = check_rank + i + k;
            CHECK_OK(MPI_Isend(out[i], 50000, MPI_INT, 0, check_rank, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Request_free(&request));
        }
    } else {
        usleep(100000);
        for (int source = check_size - 1; source > 0; source--) {
            for (int i = 0; i < N; i++) {
                CHECK_OK(MPI_Recv(in, 50000, MPI_INT, source, source, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                for (int k = 0; k < 50000; k++) CHECK_INT(in[k], source + i + k);
            }
        }
    }
    return check_end();
}
