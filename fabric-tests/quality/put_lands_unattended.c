/* Puts land in the memory of a process that makes no MPI call, and flushes of them end: where memory is shared, and where a device does it by itself (the
 * emulator does not: it works inside the calls of its process). MPI asks for less: there, progress may need a call of the target.
 *
 * Covers: 12.3, 12.7
 * Ranks: 2
 */
#include "check.h"
#include <time.h>

enum { PATIENCE = 60000, WORDS = 1 << 14 };

/* Whether the number comes to be there, looked at every millisecond. */
static int comes(volatile int64_t *place, int64_t number)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < PATIENCE; i++) {
        if (*place == number) return 1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int64_t many[WORDS];
    int64_t *memory, first = 5, last = 6;
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate((WORDS + 2) * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    for (int i = 0; i < WORDS + 2; i++)
        memory[i] = 0;
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        for (int i = 0; i < WORDS; i++)
            many[i] = i;
        CHECK_OK(MPI_Put(&first, 1, MPI_INT64_T, 1, 0, 1, MPI_INT64_T, win));
        CHECK_OK(MPI_Put(many, WORDS, MPI_INT64_T, 1, 2, WORDS, MPI_INT64_T, win));
        CHECK_OK(MPI_Win_flush(1, win));
        CHECK_OK(MPI_Put(&last, 1, MPI_INT64_T, 1, 1, 1, MPI_INT64_T, win));
        CHECK_OK(MPI_Win_flush(1, win));
    } else {
        /* What is put behind a flush is there only when the flush has ended. */
        CHECK(comes(&memory[1], last));
        CHECK_INT(memory[0], first);
        CHECK_INT(memory[WORDS + 1], WORDS - 1);
    }
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
