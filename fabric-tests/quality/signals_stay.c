/* Signal handlers belong to the program: opening MPI changes none, whatever libraries the way of the messages brings along (libfabric's may
 * catch crashes and call exit). So a crash stays one, for mpiexec, core files and debuggers.
 *
 * Covers: 2.9.2
 * Ranks: 2
 */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>

int main(int argc, char **argv)
{
    struct sigaction before[32], after;
    int known[32];

    for (int number = 1; number < 32; number++) known[number] = sigaction(number, NULL, &before[number]) == 0;
    check_start(&argc, &argv);

    int mine = check_rank, sum = 0;
    CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, (check_rank + 1) % check_size, 0, &sum, 1, MPI_INT, (check_rank + check_size - 1) % check_size, 0,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int number = 1; number < 32; number++)
        if (known[number] && sigaction(number, NULL, &after) == 0 && after.sa_handler != before[number].sa_handler)
            CHECK_FAIL("signal %d (%s) is handled otherwise since MPI is open", number, strsignal(number));
    return check_end();
}
