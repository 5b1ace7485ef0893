/* A process is killed; a survivor ends MPI while what it has sent in a lane of its own (several threads) fills the way to another that comes
 * late. That one gets all of it, hears of the end behind it, and does not wait for ever for a message that was not sent.
 *
 * Covers: 9.3, 11.4.2
 * Ranks: 3
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 1 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv)
{
    int provided, rank, one = 1, sum, code = MPI_SUCCESS, failures = 0;
    MPI_Comm own;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 2, rank, &own);
    MPI_Barrier(own);
    if (rank == 2) kill(getpid(), SIGKILL);
    while (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Request request;
        /* Until one finds no room: that one is taken back. */
        for (int i = 0, left = 1; left && i < 1000000; i++) {
            MPI_Isend(NULL, 0, MPI_CHAR, 1, 3, own, &request);
            left = 0;
            for (int looks = 0; looks < 50 && !left; looks++) MPI_Test(&request, &left, MPI_STATUS_IGNORE);
        }
        if (request != MPI_REQUEST_NULL) {
            MPI_Cancel(&request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        sleep(2);
        int got = 0;
        while (MPI_Recv(NULL, 0, MPI_CHAR, 0, 3, own, MPI_STATUS_IGNORE) == MPI_SUCCESS) got++;
        failures += got == 0;
        code = MPI_Recv(NULL, 0, MPI_CHAR, 0, 4, own, MPI_STATUS_IGNORE);
        failures += code == MPI_SUCCESS || check_class_of(code) != MPI_ERR_PROC_ABORTED;
    }
    MPI_Finalize();
    fprintf(stderr, failures ? "FAIL: rank %d\n" : "rank %d went on to its end\n", rank);
    return failures;
}
