/* A barrier keeps files in order: what each rank wrote to a shared file before it, every rank reads after it.
 *
 * Covers: 6.3
 * Ranks: 2 3 5
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    char path[] = "barrier_separates.board";
    if (check_rank == 0) {
        int made = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        CHECK(made >= 0);
        close(made);
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    int board = open(path, O_RDWR);
    CHECK(board >= 0);
    for (int round = 1; round <= 200; round++) {
        if (round % check_size == check_rank && round % 20 == 0) usleep(2000);
        CHECK_INT(pwrite(board, &round, sizeof round, (off_t)check_rank * 8), sizeof round);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int peer = 0; peer < check_size; peer++) {
            int seen = 0;
            CHECK_INT(pread(board, &seen, sizeof seen, (off_t)peer * 8), sizeof seen);
            /* The others may already be one round on, never one behind. */
            CHECK(seen == round || seen == round + 1);
        }
    }
    close(board);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) unlink(path);
    return check_end();
}
