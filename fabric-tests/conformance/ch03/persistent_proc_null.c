/* A persistent receive from MPI_PROC_NULL completes with the status of section 3.10. (MPICH 5.0 gives an empty status.)
 *
 * Covers: 3.9, 3.10
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int got = -1;
    MPI_Request requests[1];
    MPI_Status status;
    CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, MPI_PROC_NULL, 9, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Start(&requests[0]));
    CHECK_OK(MPI_Wait(&requests[0], &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    CHECK_OK(MPI_Request_free(&requests[0]));
    CHECK_INT(got, -1);
    return check_end();
}
