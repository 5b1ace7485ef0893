/* A process is killed in the middle of long collectives, and the others go their own ways: those of odd rank end MPI as soon as a call has failed,
 * the others call again on the communicator that has lost it, and work on without it on one that has not. Nobody waits for ever for who
 * has ended.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 3 4 5
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

enum { LONG = 100000 };

static int in[LONG], out[LONG];

static int complete(int begun, MPI_Request *request)
{
    return begun == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : begun;
}

int main(int argc, char **argv)
{
    MPI_Comm even;
    MPI_Request request;
    int victim, code = MPI_SUCCESS, sum = 0, members, one = 1;
    check_start(&argc, &argv);
    victim = check_size - 1;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == victim || check_rank % 2 ? MPI_UNDEFINED : 0, 0, &even));
    for (int i = 0; code == MPI_SUCCESS; i++) {
        if (check_rank == victim && i == 10) kill(getpid(), SIGKILL);
        code = complete(MPI_Iallreduce(in, out, LONG, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request), &request);
    }
    CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    if (check_rank % 2 == 0) {
        CHECK_CLASS(MPI_Bcast(out, LONG, MPI_INT, 1, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
        code = complete(MPI_Iallgather(&one, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD, &request), &request);
        CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
        CHECK_CLASS(MPI_Reduce(in, out, LONG, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
        CHECK_OK(MPI_Comm_size(even, &members));
        for (int i = 0; i < 5; i++) {
            CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, even));
            CHECK_INT(sum, members);
            CHECK_OK(MPI_Bcast(in, LONG, MPI_INT, 0, even));
        }
        CHECK_OK(MPI_Comm_free(&even));
    }
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
