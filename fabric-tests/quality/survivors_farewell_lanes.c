/* A process that has lost another one ends MPI and is gone in order, while a third waits for it in a communicator of its own, in which the two
 * have never talked: that one returns MPI_ERR_PROC_ABORTED, also on another host and where the communicator has an end of its own on the
 * fabric.
 *
 * Covers: 9.3, 11.2.2, 11.4.2
 * Ranks: 3
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without them
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    int one = 1, got = -1, in[3], out[3] = {0}, provided, code = MPI_SUCCESS;
    MPI_Comm comm;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    /* In the other one all have met. */
    CHECK_OK(MPI_Alltoall(out, 1, MPI_INT, in, 1, MPI_INT, MPI_COMM_WORLD));
    for (int peer = 0; peer < 3; peer++)
        if (peer != check_rank)
            CHECK_OK(MPI_Sendrecv(&one, 1, MPI_INT, peer, 3, &got, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 1) {
        /* The third one waits by then. */
        usleep(200 * 1000);
        kill(getpid(), SIGKILL);
    }
    if (check_rank == 0) {
        while (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on without them\n", check_rank);
    return 0;
}
