/* One-sided operations over an RDMA device are work requests and nothing else: a put of 8 bytes is one, with no message to or from the target's
 * library; so is a get, an atomic on a number of 8 bytes, and a large put up to 256 KiB. A flush adds one empty request at most. The figures are the
 * device's own counters, read as performance variables.
 *
 * Covers: 12.3
 * Ranks: 2
 * Env: WEFT_TRANSPORT=softroce
 */
#include "counter.h"
#include <stdint.h>
#include <stdlib.h>

enum { WORDS = 1 << 16, PUTS = 32 };

/* Work requests that some operations took, of this process; at most one more closes what nothing told of. */
#define COUNT(least, calls)                                                             \
    do {                                                                                \
        unsigned long long before = counted();                                         \
        calls;                                                                          \
        unsigned long long taken = counted() - before;                                 \
        if (taken < (least) || taken > (least) + 1)                                     \
            CHECK_FAIL("%llu requests instead of %d: %s", taken, (int)(least), #calls); \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    open_counter("weft_work_requests");
    uint64_t *memory, *mine = calloc(WORDS, 8), found = 0, one = 1, compare = 1, swap = 77;
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate(WORDS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    for (int i = 0; i < WORDS; i++) {
        memory[i] = 0;
        mine[i] = 1000 + i;
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        CHECK_OK(MPI_Win_lock_all(0, win));
        CHECK_OK(MPI_Put(mine, 1, MPI_UINT64_T, 1, 0, 1, MPI_UINT64_T, win));
        CHECK_OK(MPI_Win_flush(1, win));
        COUNT(1, {
            CHECK_OK(MPI_Put(mine, 1, MPI_UINT64_T, 1, 0, 1, MPI_UINT64_T, win));
            CHECK_OK(MPI_Win_flush(1, win));
        });
        COUNT(PUTS, {
            for (int i = 0; i < PUTS; i++)
                CHECK_OK(MPI_Put(mine + i, 1, MPI_UINT64_T, 1, i, 1, MPI_UINT64_T, win));
            CHECK_OK(MPI_Win_flush(1, win));
        });
        COUNT(1, {
            CHECK_OK(MPI_Get(&found, 1, MPI_UINT64_T, 1, 3, 1, MPI_UINT64_T, win));
            CHECK_OK(MPI_Win_flush(1, win));
        });
        CHECK(found == 1003);
        COUNT(1, {
            CHECK_OK(MPI_Put(mine, WORDS / 2, MPI_UINT64_T, 1, WORDS / 2, WORDS / 2, MPI_UINT64_T, win));
            CHECK_OK(MPI_Win_flush(1, win));
        });
        CHECK_OK(MPI_Put(&one, 1, MPI_UINT64_T, 1, 5, 1, MPI_UINT64_T, win));
        CHECK_OK(MPI_Win_flush(1, win));
        COUNT(1, {
            CHECK_OK(MPI_Fetch_and_op(&one, &found, MPI_UINT64_T, 1, 6, MPI_SUM, win));
            CHECK_OK(MPI_Win_flush(1, win));
        });
        CHECK(found == 1006);
        COUNT(1, {
            CHECK_OK(MPI_Accumulate(&one, 1, MPI_UINT64_T, 1, 6, 1, MPI_UINT64_T, MPI_SUM, win));
            CHECK_OK(MPI_Win_flush(1, win));
        });
        COUNT(1, {
            CHECK_OK(MPI_Compare_and_swap(&swap, &compare, &found, MPI_UINT64_T, 1, 5, win));
            CHECK_OK(MPI_Win_flush(1, win));
        });
        CHECK(found == 1);
        CHECK_OK(MPI_Win_unlock_all(win));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, check_rank, 0, win));
    if (check_rank == 1) {
        CHECK(memory[0] == 1000 && memory[3] == 1003 && memory[5] == 77 && memory[6] == 1008);
        CHECK(memory[WORDS / 2] == 1000 && memory[WORDS - 1] == 1000 + WORDS / 2 - 1);
    }
    CHECK_OK(MPI_Win_unlock(check_rank, win));
    CHECK_OK(MPI_Win_free(&win));
    free(mine);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_end();
}
