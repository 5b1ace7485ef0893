/* Collectives of more than 2^31 elements, and of displacements beyond 2^32 bytes: a broadcast and a reduction of 2 GiB and some bytes, blocking,
 * nonblocking and persistent; blocks that lie gigabytes apart in memory that is reserved but hardly there, with counts that differ.
 * The long ones are left out, with a word, on machines with less than 10 GiB of free memory.
 *
 * Covers: 6.4, 6.5, 6.6, 6.7, 6.8, 6.9.6, 6.12, 6.13, 2.5.8
 * Ranks: 2
 * Timeout: 240
 */
#include "check.h"
#include "room.h"
#include <sys/mman.h>

enum { RANKS = 2, FEW = 1000 };
static const MPI_Count LONG = ((MPI_Count)1 << 31) + 17;
/* In elements of 4 bytes: 6 GiB. */
static const MPI_Aint APART = (MPI_Aint)3 << 29;

static void *reserve(size_t length)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        CHECK_FAIL("no %zu bytes of addresses", length);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* Marks at both ends, and around the places where 32 bits end. */
static const MPI_Count marks[] = {0, 1, 4095, 0x3fffffff, 0x7ffffffe, 0x7fffffff, 0x80000000, 0x80000010};
enum { MARKS = sizeof marks / sizeof *marks };

static void put_marks(signed char *bytes, int seed)
{
    for (int i = 0; i < MARKS; i++) bytes[marks[i]] = (signed char)(seed + i);
}

static void check_marks(const signed char *bytes, int seed)
{
    for (int i = 0; i < MARKS; i++) CHECK_INT(bytes[marks[i]], seed + i);
    for (MPI_Count at = 8192; at < LONG; at += 100 << 20) CHECK_INT(bytes[at], 0);
}

static void long_ones(void)
{
    MPI_Request request;
    signed char *bytes = reserve((size_t)LONG);
    for (int form = 0; form < 3; form++) {
        int root = form % RANKS;
        if (check_rank == root) put_marks(bytes, 10 * form + 10);
        if (form == 0) CHECK_OK(MPI_Bcast_c(bytes, LONG, MPI_SIGNED_CHAR, root, MPI_COMM_WORLD));
        if (form == 1) CHECK_OK(MPI_Ibcast_c(bytes, LONG, MPI_SIGNED_CHAR, root, MPI_COMM_WORLD, &request));
        if (form == 2) {
            CHECK_OK(MPI_Bcast_init_c(bytes, LONG, MPI_SIGNED_CHAR, root, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            CHECK_OK(MPI_Start(&request));
        }
        if (form > 0) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (form == 2) CHECK_OK(MPI_Request_free(&request));
        check_marks(bytes, 10 * form + 10);
    }
    if (check_rank == 1) put_marks(bytes, 90);
    CHECK_OK(MPI_Allreduce_c(MPI_IN_PLACE, bytes, LONG, MPI_SIGNED_CHAR, MPI_MAX, MPI_COMM_WORLD));
    check_marks(bytes, 90);
    CHECK_OK(munmap(bytes, (size_t)LONG));
}

static int value(int from, int to, int i)
{
    return from * 1000000 + to * 100000 + i;
}

static void check_block(const int *block, int from, int to, int count)
{
    for (int i = 0; i < count; i++) CHECK_INT(block[i], value(from, to, i));
    CHECK_INT(block[count], 0);
}

static void blocks_apart(void)
{
    size_t length = (size_t)APART * RANKS * sizeof(int);
    int me = check_rank, *out = reserve(length), *in = reserve(length);
    MPI_Count counts[RANKS];
    MPI_Aint displs[RANKS], byte_displs[RANKS];
    MPI_Datatype types[RANKS];
    /* Blocks at the ends: the last one ends with the memory but for one element. */
    for (int r = 0; r < RANKS; r++) {
        counts[r] = FEW + r;
        displs[r] = r * APART + (r == RANKS - 1 ? APART - FEW - RANKS : 0);
        byte_displs[r] = displs[r] * (MPI_Aint)sizeof(int);
        types[r] = MPI_INT;
    }
#define CLEAR \
    for (int r = 0; r < RANKS; r++) memset(in + displs[r], 0, (FEW + RANKS) * sizeof(int))
    int *mine = out + displs[me];
    for (int i = 0; i < counts[me]; i++) mine[i] = value(me, 0, i);
    CHECK_OK(MPI_Allgatherv_c(mine, counts[me], MPI_INT, in, counts, displs, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < RANKS; r++) check_block(in + displs[r], r, 0, (int)counts[r]);
    CLEAR;
    CHECK_OK(MPI_Gatherv_c(mine, counts[me], MPI_INT, in, counts, displs, MPI_INT, 1, MPI_COMM_WORLD));
    for (int r = 0; r < RANKS && me == 1; r++) check_block(in + displs[r], r, 0, (int)counts[r]);
    CLEAR;
    for (int r = 0; r < RANKS; r++)
        for (int i = 0; i < counts[r]; i++) out[displs[r] + i] = value(me, r, i);
    CHECK_OK(MPI_Scatterv_c(out, counts, displs, MPI_INT, in, counts[me], MPI_INT, 0, MPI_COMM_WORLD));
    check_block(in, 0, me, (int)counts[me]);
    memset(in, 0, (FEW + RANKS) * sizeof(int));
    for (int w = 0; w < 2; w++) {
        MPI_Count from_each[RANKS];
        for (int r = 0; r < RANKS; r++) from_each[r] = counts[me];
        CLEAR;
        if (w)
            CHECK_OK(MPI_Alltoallw_c(out, counts, byte_displs, types, in, from_each, byte_displs, types, MPI_COMM_WORLD));
        else
            CHECK_OK(MPI_Alltoallv_c(out, counts, displs, MPI_INT, in, from_each, displs, MPI_INT, MPI_COMM_WORLD));
        for (int r = 0; r < RANKS; r++) check_block(in + displs[r], r, me, (int)counts[me]);
    }
    CHECK_OK(munmap(in, length));
    CHECK_OK(munmap(out, length));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    blocks_apart();
    int enough = free_kib() > 10 << 20;
    CHECK_OK(MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (enough)
        long_ones();
    else if (check_rank == 0)
        printf("less than 10 GiB of memory are free: nothing of more than 2^31 elements was tried\n");
    return check_end();
}
