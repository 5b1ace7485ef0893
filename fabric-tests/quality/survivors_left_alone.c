/* The last rank is killed. Rank 0 hears of that in a collective with it, ends MPI, and goes on for a while. The others then want something of it in
 * communicators to which the killed one did not belong: a message, one from anybody where nobody else is left, to see one, or that it
 * takes one. All that fails; among themselves they go on.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 3 4
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 ends
 * Stderr: rank 1 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "killed.h"

enum { LONG = 1 << 20 };

static char big[LONG];

int main(int argc, char **argv)
{
    MPI_Comm rest, pair;
    MPI_Request requests[4];
    MPI_Status statuses[4];
    MPI_Message message;
    int victim, code = MPI_SUCCESS, begun[2], one = 1, sum, got = 0, left, right;
    check_start(&argc, &argv);
    victim = check_size - 1;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == victim ? MPI_UNDEFINED : 0, 0, &rest));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank > 1 ? MPI_UNDEFINED : 0, 0, &pair));
    if (check_rank != victim) CHECK_OK(MPI_Barrier(rest));
    if (check_rank == 0) CHECK_OK(MPI_Send(&one, 1, MPI_INT, 1, 9, pair));
    if (check_rank == 1) CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, pair, &requests[3]));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    die_among_all(victim);
    if (check_rank == 0) {
        while (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
        fprintf(stderr, "rank 0 ends\n");
        MPI_Finalize();
        sleep(2);
        return 0;
    }
    /* Before it is known that it has ended, as likely as not. */
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, 1, rest, &requests[0]));
    begun[0] = MPI_Isend(big, LONG, MPI_CHAR, 0, 2, rest, &requests[1]);
    begun[1] = MPI_Issend(&one, 1, MPI_INT, 0, 3, rest, &requests[2]);
    CHECK_CLASS(MPI_Wait(&requests[0], &statuses[0]), MPI_ERR_PROC_ABORTED);
    for (int i = 0; i < 2; i++) {
        code = begun[i] == MPI_SUCCESS ? MPI_Wait(&requests[i + 1], &statuses[i + 1]) : begun[i];
        CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    }
    if (check_rank == 1) {
        CHECK_CLASS(MPI_Wait(&requests[3], &statuses[3]), MPI_ERR_PROC_ABORTED);
        /* What it sent before it ended is there. */
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 9, pair, MPI_STATUS_IGNORE));
        CHECK_INT(got, 1);
        CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 1, pair, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
        CHECK_CLASS(MPI_Mprobe(MPI_ANY_SOURCE, 1, pair, &message, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    }
    /* Now it is known. */
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, 0, 1, rest, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Probe(0, 1, rest, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Ssend(big, LONG, MPI_CHAR, 0, 1, rest), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest), MPI_ERR_PROC_ABORTED);
    /* Among themselves, on the same communicator. */
    left = check_rank == 1 ? victim - 1 : check_rank - 1;
    right = check_rank == victim - 1 ? 1 : check_rank + 1;
    got = -1;
    CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, right, 7, &got, 1, MPI_INT, left, 7, rest, MPI_STATUS_IGNORE));
    CHECK_INT(got, left);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
