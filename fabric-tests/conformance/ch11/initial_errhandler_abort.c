/* The initial error handler MPI_ERRORS_ABORT ends the process that made an error before MPI_Init, with a failing exit code of the job.
 * (MPICH 5.0's mpiexec has no such option.)
 *
 * Covers: 11.2.1, 9.3, 11.5
 * Ranks: 1 2
 * Mpiexec: -initial-errhandler mpi_errors_abort
 * Exit: nonzero
 * Absent: survived
 * Aborts: yes
 */
#include "check.h"

int main(void)
{
    int n = -1;
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    printf("survived\n");
    return 0;
}
