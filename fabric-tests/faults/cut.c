/* Ranks of two hosts exchange messages until a call fails, as it must once one of the hosts is cut off; then, where errors return, ranks
 * of one host go on with each other. Argument: "return" or "fatal" (the default error handler), or "put", where errors return and the
 * two hosts put into each other's memory instead; then, after how many rounds traffic is said to flow (200), and after how many it ends where no
 * call fails (never). */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, code = MPI_SUCCESS, error_class, other, mate, length, puts;
    long enough = argc > 2 ? atol(argv[2]) : 200, last = argc > 3 ? atol(argv[3]) : -1;
    char why[MPI_MAX_ERROR_STRING];
    static char sent[1 << 20], got[1 << 20];
    static const int sizes[] = {8, 2000, 20000, 1 << 20};
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    puts = argc > 1 && strcmp(argv[1], "put") == 0;
    if (puts || (argc > 1 && strcmp(argv[1], "return") == 0)) MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    /* The first half of the ranks runs on one host, the second on the other. */
    other = (rank + size / 2) % size;
    mate = rank ^ 1;
    if (puts) {
        MPI_Win_create(got, sizeof got, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
        MPI_Win_lock_all(0, window);
    }
    for (long round = 0; round != last; round++) {
        int bytes = sizes[round % 4];
        if (puts) {
            code = MPI_Put(sent, bytes, MPI_BYTE, other, 0, bytes, MPI_BYTE, window);
            if (code == MPI_SUCCESS) code = MPI_Win_flush(other, window);
        } else
            code = MPI_Sendrecv(sent, bytes, MPI_BYTE, other, 1, got, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) break;
        if (round == enough) {
            printf("traffic %d\n", rank);
            fflush(stdout);
        }
    }
    if (code == MPI_SUCCESS) {
        printf("rank %d has heard %d bytes to the end\n", rank, (int)sizeof got);
        MPI_Finalize();
        return 0;
    }
    MPI_Error_class(code, &error_class);
    MPI_Error_string(code, why, &length);
    code = MPI_Sendrecv(&rank, 1, MPI_INT, mate, 2, &other, 1, MPI_INT, mate, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("rank %d was told: %s (%s), its mate %s\n", rank, error_class == MPI_ERR_PROC_ABORTED ? "process gone" : "something else", why,
           code == MPI_SUCCESS && other == mate ? "answers" : "does not answer");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
