/* A partitioned send goes on while both processes are blocked in calls that have nothing to do with it.
 *
 * Covers: 4.2.2, 2.9
 * Ranks: 2
 */
#include "check.h"

#define PARTITIONS 8
#define PART 100000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static unsigned char data[PARTITIONS * PART];
    MPI_Request request, barrier;
    int flag = 0;
    if (check_rank == 0) {
        CHECK_OK(MPI_Psend_init(data, PARTITIONS, PART, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        fill(data, sizeof data, 3);
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Pready_range(0, PARTITIONS - 1, request));
        /* The grant comes while this blocks; the receiver sends only when it has everything. */
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    } else {
        CHECK_OK(MPI_Precv_init(data, PARTITIONS, PART, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        CHECK_OK(MPI_Start(&request));
        /* Other testing calls make progress too. */
        CHECK_OK(MPI_Irecv(NULL, 0, MPI_INT, 0, 8, MPI_COMM_WORLD, &barrier));
        for (int i = 0; i < PARTITIONS; i++)
            do CHECK_OK(MPI_Parrived(request, i, &flag));
            while (!flag);
        CHECK_FILL(data, sizeof data, 3);
        CHECK_OK(MPI_Test(&barrier, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 7, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&barrier, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (check_rank == 0) CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 8, MPI_COMM_WORLD));
    CHECK_OK(MPI_Request_free(&request));
    return check_end();
}
