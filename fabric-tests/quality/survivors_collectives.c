/* A process is killed while the others are in collective operations with it: those that need it fail with MPI_ERR_PROC_ABORTED, and
 * nobody waits for ever, whatever the algorithm.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 2 3 4 5
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    int victim, sum = 0, code = MPI_SUCCESS;
    check_start(&argc, &argv);
    victim = check_size - 1;
    /* Some rounds with everybody, and then without. */
    for (int i = 0; code == MPI_SUCCESS; i++) {
        if (check_rank == victim && i == 20) kill(getpid(), SIGKILL);
        code = MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
    CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Bcast(&sum, 1, MPI_INT, victim, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
