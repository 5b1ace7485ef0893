/* A leaf of a broadcast dies. The root waits for no leaf, so that it may notice late or never; the other leaves wait for the root alone. Whatever
 * each of them hears, nobody waits for ever, and from some call on all agree again: later calls that do not need the dead end well.
 *
 * Covers: 6.4, 9.3, 11.4.2
 * Ranks: 3 4 5
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

/* MPI_SUCCESS or MPI_ERR_PROC_ABORTED. */
static int allowed(int code)
{
    return code == MPI_SUCCESS || check_class_of(code) == MPI_ERR_PROC_ABORTED;
}

int main(int argc, char **argv)
{
    enum { calls = 60, dies_at = 20 };
    int victim, value;
    MPI_Request request;
    check_start(&argc, &argv);
    victim = check_size - 1;
    for (int i = 0; i < calls; i++) {
        if (check_rank == victim && i == dies_at) kill(getpid(), SIGKILL);
        /* The root comes late at times, the leaves at others; once so late that the leaves hear of the death while they wait for it. */
        if (i == dies_at && check_rank == 0) usleep(500000);
        if (i % 7 == 3 && check_rank == 0) usleep(20000);
        if (i % 7 == 5 && check_rank == 1) usleep(20000);
        value = check_rank == 0 ? i : -1;
        int code = MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
        CHECK(allowed(code));
        if (code == MPI_SUCCESS) CHECK_INT(value, i);
    }
    /* The same with nonblocking ones, and both at once. */
    for (int i = 0; i < calls; i++) {
        int later = check_rank == 0 ? i : -1;
        value = later;
        int begun = MPI_Ibcast(&later, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
        CHECK(allowed(begun));
        int code = MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD);
        CHECK(allowed(code));
        if (code == MPI_SUCCESS) CHECK_INT(value, i);
        if (begun == MPI_SUCCESS) CHECK(allowed(MPI_Wait(&request, MPI_STATUS_IGNORE)));
    }
    /* What needs the dead says so, to everybody. */
    CHECK_CLASS(MPI_Barrier(MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
