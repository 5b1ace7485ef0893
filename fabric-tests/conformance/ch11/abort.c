/* MPI_Abort ends all ranks, also those in a blocking call, and mpiexec says that the job failed. (MPICH 5.0's
 * MPI_Abort returns, and its caller goes on until the launcher ends it. The text asks for "a return errorcode from the main program",
 * by a "should": the program is stricter than the letter here.)
 *
 * Covers: 11.4.2
 * Ranks: 1 2 4
 * Exit: nonzero
 * Absent: survived
 * Aborts: yes
 */
#include "check.h"

int main(int argc, char **argv)
{
    /* The default error handler: nobody gets an error back. */
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (check_rank == check_size - 1) {
        usleep(50000);
        MPI_Abort(MPI_COMM_WORLD, 7);
        printf("survived\n");
    } else {
        MPI_Recv(NULL, 0, MPI_INT, check_size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("survived\n");
    }
    return 0;
}
