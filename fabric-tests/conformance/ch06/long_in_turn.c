/* Long calls of all kinds one after the other, of lengths from one to another: what one call leaves behind, no other finds.
 *
 * Covers: 6.5, 6.7, 6.8, 6.9.1, 6.9.6, 6.10.1, 6.1
 * Ranks: 2 3 4 5 8
 */
#include "check.h"

enum { LONGEST = 50021 };

static int mark(int from, int to, int i, int turn)
{
    return from * 1000003 + to * 7919 + i + turn;
}

static int *out, *in;

/* Exchanges, in place or not: of everybody's own block with all, or of a block for each. */
static void exchange(int turn, int count, int in_place, int has_one)
{
    int n = check_size, me = check_rank, *from = in_place ? in : out;
    for (int i = 0; i < n * count; i++) out[i] = in[i] = -7;
    for (int peer = 0; peer < n; peer++)
        for (int i = 0; i < count; i++)
            if (!has_one) from[peer * count + i] = mark(me, peer, i, turn);
    for (int i = 0; i < count && has_one; i++) from[(in_place ? me * count : 0) + i] = mark(me, 0, i, turn);
    const void *given = in_place ? MPI_IN_PLACE : out;
    if (has_one)
        CHECK_OK(MPI_Allgather(given, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD));
    else
        CHECK_OK(MPI_Alltoall(given, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD));
    for (int peer = 0; peer < n; peer++)
        for (int i = 0; i < count; i++) CHECK_INT(in[peer * count + i], mark(peer, has_one ? 0 : me, i, turn));
}

/* Sums for all, for the root, or a block of them for each. */
static void sum(int turn, int count, int in_place, int kind)
{
    int n = check_size, me = check_rank, root = (turn * 3 + kind) % n, all = kind == 2 ? n * count : count;
    int *from = in_place && (kind != 1 || me == root) ? in : out;
    for (int i = 0; i < all; i++) out[i] = in[i] = -7;
    for (int i = 0; i < all; i++) from[i] = 3 * me + i + turn;
    const void *given = from == in ? MPI_IN_PLACE : out;
    if (kind == 0)
        CHECK_OK(MPI_Allreduce(given, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    else if (kind == 1)
        CHECK_OK(MPI_Reduce(given, in, count, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
    else
        CHECK_OK(MPI_Reduce_scatter_block(given, in, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    int first = kind == 2 ? me * count : 0;
    if (kind != 1 || me == root)
        for (int i = 0; i < count; i++) CHECK_INT(in[i], 3 * (n * (n - 1) / 2) + n * (first + i + turn));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    size_t bytes = sizeof(int) * (size_t)(LONGEST * check_size);
    out = check_alloc(bytes);
    in = check_alloc(bytes);
    static const int lengths[] = {4000, 16384, LONGEST, 700, 9001, 33000};
    unsigned random = 12345;
    for (int turn = 0; turn < 120; turn++) {
        random = random * 1103515245 + 12345;
        int count = lengths[random >> 16 & 7 ? (random >> 16) % 6 : 2], kind = (int)(random >> 24) % 6, in_place = (int)(random >> 20) & 1;
        if (kind < 2)
            exchange(turn, count, in_place, kind);
        else if (kind < 5)
            sum(turn, count, in_place, kind - 2);
        else {
            int root = turn % check_size;
            for (int i = 0; i < count; i++) in[i] = check_rank == root ? mark(root, 0, i, turn) : -7;
            CHECK_OK(MPI_Bcast(in, count, MPI_INT, root, MPI_COMM_WORLD));
            for (int i = 0; i < count; i++) CHECK_INT(in[i], mark(root, 0, i, turn));
        }
    }
    free(out);
    free(in);
    return check_end();
}
