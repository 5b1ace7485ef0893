/* A buffer whose size counts fewer bytes for each message than MPI_BSEND_OVERHEAD, as other libraries' constants do (96), serves: the
 * constant is the most that a message may take beside its data. Nobody receives until all are sent, and rank 0 hears of the others first
 * through these messages, so that over a fabric all of them wait.
 *
 * Covers: 3.6, 3.6.1
 * Ranks: 2 4
 */
#include "check.h"

enum { MESSAGES = 10, NUMBERS = 10, ELSEWHERE = 96 };

int main(int argc, char **argv)
{
    static char space[MESSAGES * (NUMBERS * sizeof(int) + ELSEWHERE)];
    int numbers[NUMBERS], size = sizeof space;
    char *address = NULL;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int i = 0; i < MESSAGES; i++) {
        for (int k = 0; k < NUMBERS; k++) numbers[k] = 100 * check_rank + 10 * i + k;
        CHECK_OK(MPI_Bsend(numbers, NUMBERS, MPI_INT, 0, i, MPI_COMM_WORLD));
    }
    for (int from = 0; check_rank == 0 && from < check_size; from++)
        for (int i = MESSAGES - 1; i >= 0; i--) {
            CHECK_OK(MPI_Recv(numbers, NUMBERS, MPI_INT, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int k = 0; k < NUMBERS; k++) CHECK_INT(numbers[k], 100 * from + 10 * i + k);
        }
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == space);
    CHECK_INT(size, sizeof space);
    return check_end();
}
