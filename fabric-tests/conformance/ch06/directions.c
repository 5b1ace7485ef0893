/* Collectives of 113 bytes to 20 KiB in an order by chance, in which now all members give, now one gives to the others or takes from them,
 * in place or not, after some of them were late: nobody reads what came before or comes after.
 *
 * Covers: 6.1, 6.4, 6.5, 6.6, 6.7, 6.8, 6.9, 6.10
 * Ranks: 2 3 4
 */
#include "check.h"

enum { MOST = 20480, CALLS = 6000, RANKS = 4 };

static unsigned char out[RANKS * MOST], in[RANKS * MOST];
static unsigned long long state = 88172645463325252ULL;

/* The same at all ranks. */
static unsigned random_below(unsigned end)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 20) % end;
}

/* What a rank gives, to one other if there is one for each. */
static unsigned char byte(int at, int from, int to, int call)
{
    return (unsigned char)(at * 5 + at / 256 + from * 61 + to * 17 + call * 29);
}

static void give(unsigned char *to, int bytes, int from, int block, int call)
{
    for (int i = 0; i < bytes; i++) to[i] = byte(i, from, block, call);
}

static void expect(const unsigned char *found, int bytes, int from, int block, int call, const char *what)
{
    for (int i = 0; i < bytes; i++)
        if (found[i] != byte(i, from, block, call)) CHECK_FAIL("call %d, %s of %d bytes: byte %d from rank %d is wrong", call, what, bytes, i, from);
}

/* The exclusive or of what all ranks give, which has no order. */
static void expect_sum(const unsigned char *found, int bytes, int block, int call, const char *what)
{
    for (int i = 0; i < bytes; i++) {
        unsigned char sum = 0;
        for (int from = 0; from < check_size; from++) sum ^= byte(i, from, block, call);
        if (found[i] != sum) CHECK_FAIL("call %d, %s of %d bytes: byte %d is wrong", call, what, bytes, i);
    }
}

static void once(int call)
{
    static const int lengths[] = {113, 512, 1024, 1025, 2048, 4096, 4100, 8192, 16384, 16385, MOST};
    int bytes = lengths[random_below(sizeof lengths / sizeof *lengths)], in_place = random_below(2), late = random_below(8);
    int root = random_below(check_size), me = check_rank, size = check_size;
    if (random_below(3) == 0) bytes = 113 + random_below(MOST - 113);
    if (late < size && late == me)
        for (volatile int i = 0; i < 20000; i++) continue;
    switch (random_below(8)) {
    case 0:
        give(in, bytes, root, 0, me == root ? call : call + 1);
        CHECK_OK(MPI_Bcast(in, bytes, MPI_BYTE, root, MPI_COMM_WORLD));
        expect(in, bytes, root, 0, call, "broadcast");
        break;
    case 1: {
        int here = in_place && me == root;
        give(here ? in : out, bytes, me, 0, call);
        CHECK_OK(MPI_Reduce(here ? MPI_IN_PLACE : out, in, bytes, MPI_UNSIGNED_CHAR, MPI_BXOR, root, MPI_COMM_WORLD));
        if (me == root) expect_sum(in, bytes, 0, call, "reduction");
        break;
    }
    case 2:
        give(in_place ? in : out, bytes, me, 0, call);
        CHECK_OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : out, in, bytes, MPI_UNSIGNED_CHAR, MPI_BXOR, MPI_COMM_WORLD));
        expect_sum(in, bytes, 0, call, "reduction to all");
        break;
    case 3:
        give(in_place ? in + me * bytes : out, bytes, me, 0, call);
        CHECK_OK(MPI_Allgather(in_place ? MPI_IN_PLACE : out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD));
        for (int from = 0; from < size; from++) expect(in + from * bytes, bytes, from, 0, call, "gathering to all");
        break;
    case 4:
        for (int to = 0; to < size; to++) give((in_place ? in : out) + to * bytes, bytes, me, to, call);
        CHECK_OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD));
        for (int from = 0; from < size; from++) expect(in + from * bytes, bytes, from, me, call, "exchange");
        break;
    case 5:
        for (int to = 0; to < size; to++) give((in_place ? in : out) + to * bytes, bytes, me, to, call);
        CHECK_OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : out, in, bytes, MPI_UNSIGNED_CHAR, MPI_BXOR, MPI_COMM_WORLD));
        expect_sum(in, bytes, me, call, "scattered reduction");
        break;
    case 6:
        give(out, bytes, me, 0, call);
        CHECK_OK(MPI_Gather(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, root, MPI_COMM_WORLD));
        for (int from = 0; me == root && from < size; from++) expect(in + from * bytes, bytes, from, 0, call, "gathering");
        break;
    default:
        for (int to = 0; me == root && to < size; to++) give(out + to * bytes, bytes, me, to, call);
        CHECK_OK(MPI_Scatter(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, root, MPI_COMM_WORLD));
        expect(in, bytes, root, me, call, "scattering");
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int call = 0; call < CALLS; call++) once(call);
    return check_end();
}
