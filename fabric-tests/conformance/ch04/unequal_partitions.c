/* Different partition counts on both sides: a receive partition is there once the send partitions that cover it are.
 *
 * Covers: 4.2.1, 4.2.2, 4.2.3
 * Ranks: 2
 */
#include "check.h"

#define TOTAL 57600

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int counts[] = {1, 2, 3, 5, 64, 128, 900};
    static int data[TOTAL];
    for (unsigned s = 0; s < sizeof counts / sizeof *counts; s++)
        for (unsigned r = 0; r < sizeof counts / sizeof *counts; r++) {
            int sends = counts[s], receives = counts[r];
            MPI_Request request;
            if (check_rank == 0) {
                CHECK_OK(MPI_Psend_init(data, sends, TOTAL / sends, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
                for (int round = 0; round < 2; round++) {
                    CHECK_OK(MPI_Start(&request));
                    for (int i = 0; i < sends; i++) {
                        int partition = round == 0 ? i : sends - 1 - i;
                        for (int k = 0; k < TOTAL / sends; k++)
                            data[partition * (TOTAL / sends) + k] = partition * (TOTAL / sends) + k + round;
                        CHECK_OK(MPI_Pready(partition, request));
                    }
                    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                }
            } else {
                CHECK_OK(MPI_Precv_init(data, receives, TOTAL / receives, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
                for (int round = 0; round < 2; round++) {
                    memset(data, 0xFF, sizeof data);
                    CHECK_OK(MPI_Start(&request));
                    for (int i = 0; i < receives; i++) {
                        int flag = 0;
                        while (!flag) CHECK_OK(MPI_Parrived(request, i, &flag));
                        for (int k = 0; k < TOTAL / receives; k++) {
                            int at = i * (TOTAL / receives) + k;
                            if (data[at] != at + round) {
                                CHECK_FAIL("%d to %d partitions: element %d is %d", sends, receives, at, data[at]);
                                break;
                            }
                        }
                    }
                    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                }
            }
            CHECK_OK(MPI_Request_free(&request));
        }
    return check_end();
}
