/* Random accumulating operations of all ranks on the same numbers of rank 0: sums of one element and of several, with and without the old value,
 * sums by compare and swap, looks, and sums of the owner's own. Whichever way each of them goes (a device, messages, the owner's own hands, from its
 * node or from another), every one counts, each sum that is looked at never shrinks for who looks, and no value comes twice. Compare and swap beside
 * sums is more than accumulate_ops asks for by default. With devices and, by the info key weft_device_atomics, without.
 *
 * Covers: 12.3.4, 12.7.1
 * Ranks: 2 3 4
 */
#include "check.h"
#include <stdint.h>

enum { WORDS = 5, TURNS = 120, ONES = WORDS - 1 };

static uint64_t state;

static unsigned next(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % below);
}

/* What this rank has added to each number. */
static int64_t added[WORDS];

static void one_turn(MPI_Win win, int64_t *last)
{
    int64_t numbers[WORDS], old[WORDS] = {0}, seen, none = 0;
    int word = (int)next(ONES), count = 1 + (int)next((unsigned)(ONES - word));
    for (int i = 0; i < count; i++)
        numbers[i] = next(1000);
    switch (next(6)) {
    case 0:
        CHECK_OK(MPI_Accumulate(numbers, 1, MPI_INT64_T, 0, word, 1, MPI_INT64_T, MPI_SUM, win));
        added[word] += numbers[0];
        break;
    case 1:
        CHECK_OK(MPI_Accumulate(numbers, count, MPI_INT64_T, 0, word, count, MPI_INT64_T, MPI_SUM, win));
        for (int i = 0; i < count; i++)
            added[word + i] += numbers[i];
        break;
    case 2:
        CHECK_OK(MPI_Fetch_and_op(numbers, old, MPI_INT64_T, 0, word, MPI_SUM, win));
        CHECK_OK(MPI_Win_flush(0, win));
        CHECK(old[0] >= last[word]);
        last[word] = old[0] + numbers[0];
        added[word] += numbers[0];
        break;
    case 3:
        CHECK_OK(MPI_Get_accumulate(numbers, count, MPI_INT64_T, old, count, MPI_INT64_T, 0, word, count, MPI_INT64_T, MPI_SUM, win));
        CHECK_OK(MPI_Win_flush(0, win));
        for (int i = 0; i < count; i++) {
            CHECK(old[i] >= last[word + i]);
            last[word + i] = old[i] + numbers[i];
            added[word + i] += numbers[i];
        }
        break;
    case 4:
        CHECK_OK(MPI_Fetch_and_op(&none, &seen, MPI_INT64_T, 0, word, MPI_NO_OP, win));
        CHECK_OK(MPI_Win_flush(0, win));
        CHECK(seen >= last[word]);
        numbers[0] += seen;
        CHECK_OK(MPI_Compare_and_swap(numbers, &seen, old, MPI_INT64_T, 0, word, win));
        CHECK_OK(MPI_Win_flush(0, win));
        if (old[0] == seen)
            added[word] += numbers[0] - seen;
        break;
    default:
        CHECK_OK(MPI_Win_flush_local(0, win));
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int round = 0; round < 4; round++) {
        int64_t *memory, last[WORDS] = {0}, ticket = 1, drawn[TURNS], sums[WORDS];
        MPI_Info info;
        MPI_Win win;
        state = 0x9e3779b97f4a7c15u * (uint64_t)(round * 16 + check_rank + 1);
        for (int i = 0; i < WORDS; i++)
            added[i] = 0;
        CHECK_OK(MPI_Info_create(&info));
        if (round % 2 == 1)
            CHECK_OK(MPI_Info_set(info, "weft_device_atomics", "false"));
        CHECK_OK(MPI_Win_allocate(WORDS * 8, 8, info, MPI_COMM_WORLD, &memory, &win));
        CHECK_OK(MPI_Info_free(&info));
        for (int i = 0; i < WORDS; i++)
            memory[i] = 0;
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        CHECK_OK(MPI_Win_lock_all(0, win));
        for (int turn = 0; turn < TURNS; turn++) {
            one_turn(win, last);
            CHECK_OK(MPI_Fetch_and_op(&ticket, &drawn[turn], MPI_INT64_T, 0, ONES, MPI_SUM, win));
        }
        CHECK_OK(MPI_Win_unlock_all(win));
        added[ONES] = TURNS;
        for (int turn = 1; turn < TURNS; turn++)
            CHECK(drawn[turn] > drawn[turn - 1]);
        CHECK_OK(MPI_Reduce(added, sums, WORDS, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
        int64_t tickets = 0, all = 0;
        for (int turn = 0; turn < TURNS; turn++)
            tickets += drawn[turn];
        CHECK_OK(MPI_Reduce(&tickets, &all, 1, MPI_INT64_T, MPI_SUM, 0, MPI_COMM_WORLD));
        if (check_rank == 0) {
            int64_t total = (int64_t)check_size * TURNS;
            CHECK_INT(all, total * (total - 1) / 2);
            CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
            for (int i = 0; i < WORDS; i++)
                CHECK_INT(memory[i], sums[i]);
            CHECK_OK(MPI_Win_unlock(0, win));
        }
        CHECK_OK(MPI_Win_free(&win));
    }
    return check_end();
}
