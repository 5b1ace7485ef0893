/* Accumulating operations on one place, by every procedure and of every size, concurrently: no sum is lost and no fetched value comes twice
 * (12.7.1). Those of one origin are executed in the order of the calls, short ones behind long ones and the other way round, without any
 * synchronisation between them (12.7.2).
 *
 * Covers: 12.3.4, 12.7.1, 12.7.2
 * Ranks: 1 2 4
 */
#include "check.h"

enum { WORDS = 4096, TURNS = 40, PLACE = 7 };

static int64_t *memory;
static MPI_Win win;

/* Everybody adds to all words of rank 0 and, with short calls, to one of them more. */
static void sums(void)
{
    static int64_t ones[WORDS], old[WORDS];
    int64_t seen[TURNS], one = 1, least = -1;
    for (int i = 0; i < WORDS; i++)
        ones[i] = 1;
    CHECK_OK(MPI_Win_lock_all(0, win));
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK_OK(MPI_Fetch_and_op(&one, &seen[turn], MPI_INT64_T, 0, PLACE, MPI_SUM, win));
        CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT64_T, 0, PLACE, 1, MPI_INT64_T, MPI_SUM, win));
        if (turn % 4 == check_rank % 4) {
            if (turn % 8 < 4)
                CHECK_OK(MPI_Accumulate(ones, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T, MPI_SUM, win));
            else
                CHECK_OK(MPI_Get_accumulate(ones, WORDS, MPI_INT64_T, old, WORDS, MPI_INT64_T, 0, 0, WORDS, MPI_INT64_T,
                                            MPI_SUM, win));
        }
        if (turn % 3 == 0)
            CHECK_OK(MPI_Win_flush(0, win));
    }
    CHECK_OK(MPI_Win_unlock_all(win));
    for (int turn = 0; turn < TURNS; turn++) {
        CHECK(seen[turn] > least);
        least = seen[turn];
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) {
        int64_t longs = (int64_t)check_size * TURNS / 4;
        CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        CHECK_INT(memory[0], longs);
        CHECK_INT(memory[WORDS - 1], longs);
        CHECK_INT(memory[PLACE], longs + 2 * (int64_t)check_size * TURNS);
        CHECK_OK(MPI_Win_unlock(0, win));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* One origin at a time, short and long calls on one place in turn: each finds what the one before left. */
static void order(void)
{
    enum { WIDE = 600 };
    static int64_t values[WIDE], old[TURNS][WIDE];
    int64_t found[TURNS][4], one = 1, compare[TURNS], swap[TURNS];
    int target = check_size - 1;
    for (int who = 0; who < check_size; who++) {
        if (who == check_rank) {
            CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
            for (int turn = 0; turn < TURNS; turn++) {
                int64_t base = 100 * turn;
                for (int i = 0; i < WIDE; i++)
                    values[i] = base;
                compare[turn] = base + 1;
                swap[turn] = base + 50;
                CHECK_OK(MPI_Accumulate(values, turn % 2 ? WIDE : 1, MPI_INT64_T, target, PLACE, turn % 2 ? WIDE : 1, MPI_INT64_T,
                                        MPI_REPLACE, win));
                CHECK_OK(MPI_Win_flush_local(target, win));
                CHECK_OK(MPI_Fetch_and_op(&one, &found[turn][0], MPI_INT64_T, target, PLACE, MPI_SUM, win));
                if (turn % 3 == 0)
                    CHECK_OK(MPI_Win_flush(target, win));
                CHECK_OK(MPI_Compare_and_swap(&swap[turn], &compare[turn], &found[turn][1], MPI_INT64_T, target, PLACE, win));
                CHECK_OK(MPI_Fetch_and_op(NULL, &found[turn][2], MPI_INT64_T, target, PLACE, MPI_NO_OP, win));
                CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, old[turn], WIDE, MPI_INT64_T, target, PLACE, WIDE, MPI_INT64_T,
                                            MPI_NO_OP, win));
                CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT64_T, target, PLACE, 1, MPI_INT64_T, MPI_SUM, win));
                CHECK_OK(MPI_Fetch_and_op(&one, &found[turn][3], MPI_INT64_T, target, PLACE, MPI_SUM, win));
            }
            CHECK_OK(MPI_Win_unlock(target, win));
            for (int turn = 0; turn < TURNS; turn++) {
                CHECK_INT(found[turn][0], 100 * turn);
                CHECK_INT(found[turn][1], 100 * turn + 1);
                CHECK_INT(found[turn][2], 100 * turn + 50);
                CHECK_INT(old[turn][0], 100 * turn + 50);
                CHECK_INT(found[turn][3], 100 * turn + 51);
            }
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK_OK(MPI_Win_allocate(WORDS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    memset(memory, 0, WORDS * 8);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    sums();
    order();
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
