/* The first message to a process, and those of a collective that is everybody's first, have left when the call that sent them ends: the others
 * go on although their senders compute from then on, and although a receiver calls MPI late, when whoever waits for it to connect has
 * waited for long. Told by files, beside MPI.
 *
 * Covers: 2.9, 3.5, 6.3
 * Ranks: 4
 * Node: one
 * Timeout: 120
 * Default: WEFT_TRANSPORT=softroce
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

enum { PATIENCE = 20 /* seconds */ };

static const char *path_of(int step, int rank)
{
    static char path[64];
    snprintf(path, sizeof path, "first_message.%d.%d.%d", (int)getppid(), step, rank);
    return path;
}

static void has_gone_on(int step)
{
    int made = open(path_of(step, check_rank), O_CREAT | O_RDWR, 0600);
    CHECK(made >= 0);
    close(made);
}

/* Computes until another has gone on. */
static void compute(int step, int rank)
{
    for (int turn = 0; turn < PATIENCE * 1000 && access(path_of(step, rank), F_OK) != 0; turn++) usleep(1000);
    CHECK(access(path_of(step, rank), F_OK) == 0);
}

int main(int argc, char **argv)
{
    int value = 17;
    check_start(&argc, &argv);
    if (check_rank == 0) {
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
        compute(0, 1);
    } else if (check_rank == 1) {
        usleep(300000);
        value = 0;
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(value, 17);
        has_gone_on(0);
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    has_gone_on(1);
    for (int rank = 0; rank < check_size; rank++) compute(1, rank);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int step = 0; step < 2; step++) unlink(path_of(step, check_rank));
    return check_end();
}
