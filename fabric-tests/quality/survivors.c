/* A process is killed where the others' error handlers return: mpiexec tells them, and whatever concerns the dead one returns
 * MPI_ERR_PROC_ABORTED instead of waiting for ever, what was under way as well as what comes later; the others go on with each
 * other, to the end of MPI_Finalize. The job's exit code is that of the death.
 *
 * Covers: 9.3, 9.5, 11.4.2
 * Ranks: 2 3 5
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int got = -1, victim, flag = 0, index = -1, value = 0;
    static char big[1 << 20];
    MPI_Request requests[6];
    MPI_Status statuses[6];
    MPI_Comm rest;
    check_start(&argc, &argv);
    victim = check_size - 1;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == victim ? MPI_UNDEFINED : 0, 0, &rest));
    if (check_rank == victim) {
        /* All others are where they should be. */
        for (int i = 0; i < victim; i++)
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, i, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        kill(getpid(), SIGKILL);
    }
    MPI_Comm_set_errhandler(rest, MPI_ERRORS_RETURN);
    /* Under way when it happens: receives, a large and a synchronous send, one for the living. */
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, victim, 2, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Isend(big, sizeof big, MPI_CHAR, victim, 3, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Issend(&got, 1, MPI_INT, victim, 4, MPI_COMM_WORLD, &requests[2]));
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 5, MPI_COMM_WORLD, &requests[3]));
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, victim, 1, MPI_COMM_WORLD));
    if (check_rank % 2 == 0) {
        /* Asleep in a call for one that dies. */
        CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, victim, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    } else {
        CHECK_CLASS(MPI_Probe(victim, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    }
    CHECK_CLASS(MPI_Waitall(3, requests, statuses), MPI_ERR_IN_STATUS);
    for (int i = 0; i < 3; i++) CHECK_INT(check_class_of(statuses[i].MPI_ERROR), MPI_ERR_PROC_ABORTED);
    /* Later ones, of every kind. */
    CHECK_CLASS(MPI_Ssend(&got, 1, MPI_INT, victim, 8, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Sendrecv(&got, 1, MPI_INT, victim, 8, &value, 1, MPI_INT, victim, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, victim, 9, MPI_COMM_WORLD, &requests[4]));
    if (MPI_Start(&requests[4]) == MPI_SUCCESS) CHECK_CLASS(MPI_Wait(&requests[4], MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_OK(MPI_Request_free(&requests[4]));
    /* The living are not concerned. */
    CHECK_OK(MPI_Send(&check_rank, 1, MPI_INT, check_rank, 5, MPI_COMM_WORLD));
    CHECK_OK(MPI_Waitany(1, &requests[3], &index, MPI_STATUS_IGNORE));
    CHECK_INT(value, check_rank);
    for (int i = 0; i < 50; i++) {
        int sum = 0, right = (check_rank + 1) % victim, left = (check_rank + victim - 1) % victim;
        CHECK_OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, rest));
        CHECK_INT(sum, victim * (victim - 1) / 2);
        CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, right, i, &value, 1, MPI_INT, left, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(value, left);
    }
    CHECK_OK(MPI_Iprobe(check_rank, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_free(&rest));
    /* mpiexec, which hears of it from another host's agent, says how many go on: while they do. */
    sleep(1);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
