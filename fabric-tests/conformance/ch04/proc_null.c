/* MPI_PROC_NULL at the other end; partitions without any data; MPI_Parrived of the null request.
 *
 * Covers: 4.2.1, 4.2.2, 3.10
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int data[4] = {1, 2, 3, 4}, flag = 0;
    MPI_Request send, receive;
    MPI_Status status;
    CHECK_OK(MPI_Psend_init(data, 4, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(data, 2, 2, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(MPI_Start(&send));
        CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Pready_range(0, 3, send));
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&receive, &status));
        CHECK_INT(data[0] + 10 * data[1] + 100 * data[2] + 1000 * data[3], 4321);
    }
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    /* No bytes at all. */
    CHECK_OK(MPI_Psend_init(NULL, 3, 0, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(NULL, 5, 0, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &receive));
    for (int round = 0; round < 3; round++) {
        CHECK_OK(MPI_Start(&send));
        CHECK_OK(MPI_Start(&receive));
        for (int i = 0; i < 3; i++) CHECK_OK(MPI_Pready(i, send));
        CHECK_OK(MPI_Wait(&receive, &status));
        CHECK_STATUS(status, 0, 0, MPI_INT, 0);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    CHECK_OK(MPI_Parrived(MPI_REQUEST_NULL, 0, &flag));
    CHECK(flag);
    return check_end();
}
