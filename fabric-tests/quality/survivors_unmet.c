/* A process is killed that has exchanged nothing with one that waits for it: that one returns MPI_ERR_PROC_ABORTED all the same, though
 * neither has ever sent the other anything by which its end could be noticed.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 2 3
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    int got = -1, victim;
    check_start(&argc, &argv);
    victim = check_size - 1;
    if (check_rank == victim) {
        /* The others shall wait by then. */
        usleep(300 * 1000);
        kill(getpid(), SIGKILL);
    }
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
