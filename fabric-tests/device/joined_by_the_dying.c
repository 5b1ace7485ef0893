/* A process dies while the members of a communicator join a group of the fabric's provider, at a moment of it that DIES_AT names in
 * thousandths: the others fail with MPI_ERR_PROC_ABORTED, sooner or later, and nobody waits for ever.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 3 4
 * Timeout: 40
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>
#include <sys/time.h>

enum { ROUNDS = 6 };

static void die(int signal)
{
    (void)signal;
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    int victim, code = MPI_SUCCESS;
    double longest = 0;
    check_start(&argc, &argv);
    victim = check_size - 1;
    signal(SIGALRM, die);
    for (int round = 0; code == MPI_SUCCESS; round++) {
        MPI_Comm comm;
        code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        /* The group is looked for before the second call. */
        if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
        double begun = MPI_Wtime();
        if (check_rank == victim && round == ROUNDS) {
            long moment = (long)(longest * 1e3 * atoi(getenv("DIES_AT")));
            struct itimerval timer = {{0, 0}, {moment / 1000000, moment % 1000000 + 1}};
            setitimer(ITIMER_REAL, &timer, NULL);
        }
        if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
        /* Without the first, in which more is to be done. */
        double took = MPI_Wtime() - begun;
        if (round > 0 && took > longest) longest = took;
        if (code == MPI_SUCCESS) code = MPI_Barrier(comm);
        if (comm != MPI_COMM_NULL && code == MPI_SUCCESS) code = MPI_Comm_free(&comm);
    }
    CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
