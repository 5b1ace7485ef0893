/* Rank 1 is killed. Rank 0, which waits for it, hears of that, ends MPI, and goes on for a while. All others, which have never exchanged
 * anything with rank 0, wait for a message of it, on several hosts from another one: that fails, since rank 0 will send nothing any more,
 * though it lives. Among themselves they go on.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 4 6
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 ends
 * Stderr: rank 3 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    int got = -1, left, right;
    check_start(&argc, &argv);
    if (check_rank == 1) {
        /* The others shall wait by then. */
        usleep(300 * 1000);
        kill(getpid(), SIGKILL);
    }
    if (check_rank == 0) {
        CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
        fprintf(stderr, "rank 0 ends\n");
        MPI_Finalize();
        sleep(4);
        return 0;
    }
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    left = check_rank == 2 ? check_size - 1 : check_rank - 1;
    right = check_rank == check_size - 1 ? 2 : check_rank + 1;
    CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, right, 7, &got, 1, MPI_INT, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_INT(got, left);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
