/* What ranks said before one of them died counts, also when it is heard after the death: the launcher of rank 0 (mpiexec, or on several
 * hosts rank 0's agent) sleeps from before the others say that their error handlers return until the victim, which on several hosts is on
 * another one, is dead and its end is told.
 *
 * Covers: 9.3
 * Ranks: 2 4
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "halted.h"

/* One message from everybody to rank 0 and back. */
static void meet(int *told)
{
    if (check_rank != 0) {
        MPI_Send(told, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
        MPI_Recv(told, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    for (int i = 1; i < check_size; i++) MPI_Recv(told, 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 1; i < check_size; i++) MPI_Send(told, 1, MPI_INT, i, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int told = getpid(), launcher = getppid(), got = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    int victim = check_size - 1;
    /* All that will talk have talked before, since first contacts need the launcher. The last message that comes to rank 0 is the
     * victim's: `told` is its process. */
    meet(&told);
    for (int i = 1; check_rank == victim && i < victim; i++)
        MPI_Sendrecv(&got, 1, MPI_INT, i, 3, &told, 1, MPI_INT, i, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (check_rank != 0 && check_rank != victim)
        MPI_Sendrecv(&got, 1, MPI_INT, victim, 3, &told, 1, MPI_INT, victim, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    meet(&got);
    if (check_rank == 0) halt(launcher);
    meet(&got);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    meet(&got);
    if (check_rank == victim) kill(getpid(), SIGKILL);
    if (check_rank == 0) {
        await_state(told, 'Z', launcher);
        /* The victim's agent needs a moment to tell of it. Were it slower, the test would pass without having tried much. */
        struct timespec moment = {0, 300000000};
        nanosleep(&moment, NULL);
        kill(launcher, SIGCONT);
    }
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, victim, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
