/* MPI_ERRORS_ABORT on a communicator ends the processes of that object and no others, where the
 * others' error handlers return.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 4
 * Exit: nonzero
 * Absent: survived
 * Stderr: rank 0 went on to its end
 * Stderr: rank 2 went on to its end
 * Aborts: yes
 */
#include "check.h"

/* Nobody is in a collective operation any more when the first process aborts: rank 1 waits for the survivors. */
static void ready(int survivor)
{
    if (survivor) CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 5, MPI_COMM_WORLD));
    for (int i = 0; check_rank == 1 && i < 2; i++)
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

int main(int argc, char **argv)
{
    MPI_Comm half;
    int got = -1, sum = 0;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, 0, &half));
    ready(check_rank % 2 == 0);
    if (check_rank % 2 == 1) {
        if (check_rank == 3) MPI_Recv(&got, 1, MPI_INT, 0, 0, half, MPI_STATUS_IGNORE);
        MPI_Comm_set_errhandler(half, MPI_ERRORS_ABORT);
        MPI_Send(NULL, 0, MPI_INT, 1000, 0, half);
        printf("survived\n");
        return 0;
    }
    CHECK_CLASS(MPI_Recv(&got, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_PROC_ABORTED);
    CHECK_CLASS(MPI_Ssend(&got, 1, MPI_INT, 3, 7, MPI_COMM_WORLD), MPI_ERR_PROC_ABORTED);
    for (int i = 0; i < 100; i++) {
        CHECK_OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, half));
        CHECK_INT(sum, 2);
    }
    CHECK_OK(MPI_Comm_free(&half));
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
