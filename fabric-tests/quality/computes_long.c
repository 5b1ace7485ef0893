/* A process that computes for long between two calls of MPI is not taken for a dead one, though its emulated device does not answer
 * meanwhile: not by one that waits for its message, and not by one that has sent it some.
 *
 * Covers: 2.9
 * Ranks: 3
 * Env: WEFT_TRANSPORT=softroce
 * Absent: gone
 */
#include "check.h"
#include <time.h>

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int number = 0;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        struct timespec long_time = {12, 0};
        nanosleep(&long_time, NULL);
        CHECK_OK(MPI_Recv(&number, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(number, 7);
        number = 9;
        CHECK_OK(MPI_Send(&number, 1, MPI_INT, 1, 5, MPI_COMM_WORLD));
    } else if (check_rank == 1) {
        CHECK_OK(MPI_Recv(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(number, 9);
    } else {
        number = 7;
        CHECK_OK(MPI_Ssend(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD));
    }
    return check_end();
}
