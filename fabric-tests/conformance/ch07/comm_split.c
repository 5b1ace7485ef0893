/* MPI_Comm_split: groups by colour, ranks by key and, among equals, by old rank; MPI_UNDEFINED gives MPI_COMM_NULL; negative
 * keys; the new communicators work.
 *
 * Covers: 7.4.2, 7.4.1
 * Ranks: 1 2 3 4 5 8
 */
#include "check.h"

static int key_of(int rank, int kind)
{
    switch (kind) {
    case 0: return 0;
    case 1: return -rank;
    case 2: return rank % 2 ? -5 : 5;
    case 3: return rank == 0 ? 2147483647 : -2147483647 - 1;
    default: return (rank * 7) % 5;
    }
}

static int color_of(int rank, int kind)
{
    switch (kind) {
    case 0: return rank % 2;
    case 1: return 7;
    case 2: return rank;
    case 3: return rank % 3 == 1 ? MPI_UNDEFINED : rank % 3;
    case 4: return MPI_UNDEFINED;
    default: return 2147483647 - rank % 2;
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank;
    for (int colors = 0; colors < 6; colors++)
        for (int keys = 0; keys < 5; keys++) {
            MPI_Comm part;
            int color = color_of(me, colors), size, rank, result;
            CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, color, key_of(me, keys), &part));
            if (color == MPI_UNDEFINED) {
                CHECK(part == MPI_COMM_NULL);
                continue;
            }
            /* The standard's order, computed here. */
            int members[8], count = 0;
            for (int r = 0; r < n; r++)
                if (color_of(r, colors) == color) members[count++] = r;
            for (int a = 0; a < count; a++)
                for (int b = count - 1; b > a; b--)
                    if (key_of(members[b], keys) < key_of(members[b - 1], keys)) {
                        int swap = members[b];
                        members[b] = members[b - 1];
                        members[b - 1] = swap;
                    }
            CHECK_OK(MPI_Comm_size(part, &size));
            CHECK_OK(MPI_Comm_rank(part, &rank));
            CHECK_INT(size, count);
            CHECK(rank >= 0 && rank < count && members[rank] == me);
            int all[8];
            CHECK_OK(MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, part));
            for (int r = 0; r < count; r++) CHECK_INT(all[r], members[r]);
            /* Point-to-point by the new ranks. */
            int got = -1, peer = (rank + 1) % size;
            MPI_Status status;
            CHECK_OK(MPI_Sendrecv(&me, 1, MPI_INT, peer, 1, &got, 1, MPI_INT, MPI_ANY_SOURCE, 1, part, &status));
            CHECK_INT(got, members[(rank + size - 1) % size]);
            CHECK_INT(status.MPI_SOURCE, (rank + size - 1) % size);
            CHECK_OK(MPI_Comm_compare(MPI_COMM_WORLD, part, &result));
            int same_order = count == n;
            for (int r = 0; r < count; r++) same_order &= members[r] == r;
            CHECK_INT(result, same_order ? MPI_CONGRUENT : count == n ? MPI_SIMILAR : MPI_UNEQUAL);
            CHECK_OK(MPI_Comm_free(&part));
            CHECK(part == MPI_COMM_NULL);
        }
    /* A split of a split, several levels deep, and many communicators alive at once. */
    MPI_Comm level = MPI_COMM_WORLD, kept[40];
    for (int depth = 0; depth < 5; depth++) {
        MPI_Comm part;
        int rank, size, sum;
        CHECK_OK(MPI_Comm_rank(level, &rank));
        CHECK_OK(MPI_Comm_split(level, rank % 2, 0, &part));
        CHECK_OK(MPI_Comm_size(part, &size));
        int one = 1;
        CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part));
        CHECK_INT(sum, size);
        if (level != MPI_COMM_WORLD) CHECK_OK(MPI_Comm_free(&level));
        level = part;
    }
    CHECK_OK(MPI_Comm_free(&level));
    for (int i = 0; i < 40; i++) CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, (me + i) % 2, 0, &kept[i]));
    for (int i = 39; i >= 0; i--) {
        int size, sum, one = i;
        CHECK_OK(MPI_Comm_size(kept[i], &size));
        CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, kept[i]));
        CHECK_INT(sum, i * size);
    }
    for (int i = 0; i < 40; i++) CHECK_OK(MPI_Comm_free(&kept[i]));
    return check_end();
}
