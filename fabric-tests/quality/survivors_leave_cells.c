/* The last rank is killed. Rank 0 hears of that in a collective with it and ends MPI; the others are then in a collective of a communicator
 * that they share with rank 0 and to which the killed one did not belong. They fail, whether the call is blocking, nonblocking, or the one in which
 * they agree on how to work together, and do not wait for who has ended MPI. A rank that has sent them nothing is not waited for either.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 4 6
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: rank 0 ends
 * Stderr: rank 1 went on to its end
 * Stderr: rank 2 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "killed.h"

static int one = 1, sum;

static int complete(int begun, MPI_Request *request)
{
    return begun == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : begun;
}

int main(int argc, char **argv)
{
    /* Communicators of all but the victim: one for each way to wait. */
    enum { BLOCKING, NONBLOCKING, BEGUN, WAYS };
    MPI_Comm rest[WAYS];
    MPI_Request request;
    int victim, code = MPI_SUCCESS;
    check_start(&argc, &argv);
    victim = check_size - 1;
    for (int way = 0; way < WAYS; way++) {
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == victim ? MPI_UNDEFINED : 0, 0, &rest[way]));
        /* The one that was only begun has not decided yet how it works. */
        for (int i = 0; check_rank != victim && i < (way == BEGUN ? 1 : 5); i++) {
            CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest[way]));
            CHECK_INT(sum, victim);
        }
    }
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    die_among_all(victim);
    if (check_rank == 0) {
        while (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
        fprintf(stderr, "rank 0 ends\n");
        MPI_Finalize();
        return 0;
    }
    for (int way = 0; way < WAYS; way++) {
        code = way == NONBLOCKING
                   ? complete(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest[way], &request), &request)
                   : MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest[way]);
        CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    }
    /* Again, after the failure. */
    CHECK_CLASS(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, rest[BLOCKING]), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
