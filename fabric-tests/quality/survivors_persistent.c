/* A process is killed while the others have persistent collectives with it, some under way: those that need it fail with
 * MPI_ERR_PROC_ABORTED at every start from then on, whichever was started first, and nobody waits for ever, also not for a member that has failed
 * more often before, and has ended.
 *
 * Covers: 9.3, 11.4.2, 6.13
 * Ranks: 2 3 4 5
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

enum { REQUESTS = 4, LONG = 5000, VERY_LONG = 100000 };

static int in[VERY_LONG], out[LONG], room[VERY_LONG];

int main(int argc, char **argv)
{
    MPI_Request all[REQUESTS];
    int victim, one = 1, sum = 0, failed = 0;
    check_start(&argc, &argv);
    victim = check_size - 1;
    CHECK_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &all[0]));
    CHECK_OK(MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all[1]));
    CHECK_OK(MPI_Allreduce_init(in, out, LONG, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all[2]));
    CHECK_OK(MPI_Allreduce_init(in, room, VERY_LONG, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &all[3]));
    for (int turn = 0; failed < REQUESTS && turn < 10000; turn++) {
        int begun[REQUESTS];
        for (int i = 0; i < REQUESTS; i++) {
            int which = (turn + i * (check_rank % 2 ? 1 : REQUESTS - 1)) % REQUESTS;
            /* The victim has started one of them. */
            if (check_rank == victim && turn == 20 && i == 1) kill(getpid(), SIGKILL);
            begun[which] = MPI_Start(&all[which]);
        }
        for (int i = 0; i < REQUESTS; i++) {
            int code = begun[i] == MPI_SUCCESS ? MPI_Wait(&all[i], MPI_STATUS_IGNORE) : begun[i];
            if (code == MPI_SUCCESS) continue;
            CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
            failed++;
        }
    }
    /* Each of them, and again. */
    CHECK(failed >= REQUESTS);
    for (int i = 0; i < 2 * REQUESTS; i++) {
        int code = MPI_Start(&all[i % REQUESTS]);
        if (code == MPI_SUCCESS) code = MPI_Wait(&all[i % REQUESTS], MPI_STATUS_IGNORE);
        CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    }
    for (int i = 0; i < REQUESTS; i++) CHECK_OK(MPI_Request_free(&all[i]));
    CHECK_OK(MPI_Finalize());
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
