/* A process begins MPI and is killed before mpiexec had time to hear that it has begun: the others, whose error handlers return,
 * go on without it all the same. mpiexec sleeps (SIGSTOP) from before the victim's MPI_Init until the victim is dead, so
 * that it finds the death and all words of the victim at once. (By shared memory, since MPI_Init over a fabric needs the launcher.)
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 2 3
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 * Node: one
 * Env: WEFT_TRANSPORT=shm
 */
#include "halted.h"

int main(int argc, char **argv)
{
    int got = 0, victim, pid = getpid(), launcher = getppid();
    const char *rank = getenv("PMI_RANK"), *size = getenv("PMI_SIZE");
    /* mpiexec starts ranks in order, so when the last one runs all do. */
    if (rank && size && atoi(rank) == atoi(size) - 1) {
        halt(launcher);
    }
    check_start(&argc, &argv);
    victim = check_size - 1;
    if (check_rank == victim) {
        CHECK_OK(MPI_Send(&pid, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        for (int i = 0; i < victim; i++)
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        kill(pid, SIGKILL);
    }
    if (check_rank == 0) CHECK_OK(MPI_Recv(&pid, 1, MPI_INT, victim, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Send(&got, 1, MPI_INT, victim, 1, MPI_COMM_WORLD));
    if (check_rank == 0) {
        await_state(pid, 'Z', launcher);
        kill(launcher, SIGCONT);
    }
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, victim, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
