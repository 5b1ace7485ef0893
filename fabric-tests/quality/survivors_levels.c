/* A rank is killed while all are in short collectives of a communicator that may be on several nodes: all others end, with the error that tells it, wherever
 * they were in their calls. (tests/algorithms.rs runs it on several nodes.)
 *
 * Covers: 9.3
 * Ranks: 2 4 5
 * Args: 1
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    int code = MPI_SUCCESS, in = 1, out = 0;
    MPI_Init(&argc, &argv);
    check_world();
    /* By place from the end: the last one, or somebody in between. */
    int victim = check_size - (argc > 1 ? atoi(argv[1]) : 1), last = check_rank == victim ? 301 : 1 << 24;
    for (int call = 0; call < last && code == MPI_SUCCESS; call++) {
        int root = call % check_size;
        switch (call % 4) {
        case 0: code = MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); break;
        case 1: code = MPI_Bcast(&in, 1, MPI_INT, root, MPI_COMM_WORLD); break;
        case 2: code = MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD); break;
        case 3: code = MPI_Barrier(MPI_COMM_WORLD); break;
        }
    }
    if (check_rank == victim) kill(getpid(), SIGKILL);
    CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    /* So do those that follow. */
    CHECK_INT(check_class_of(MPI_Barrier(MPI_COMM_WORLD)), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
