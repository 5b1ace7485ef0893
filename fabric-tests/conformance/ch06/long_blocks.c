/* Long blocks and vectors, the same call often in a row, so that an implementation that finds out the fastest way goes all of them: every
 * result is right, contributions are unchanged, in place too, whether or not a rank's arguments have gaps, and a buffer may be changed
 * as soon as the call has returned.
 *
 * Covers: 6.1, 6.7, 6.8, 6.9.1, 6.9.6, 6.10.1
 * Ranks: 2 3 4
 * Timeout: 120
 */
#include "check.h"

enum { COUNTS = 2, CALLS = 50 };
static int length;

static int value(int call, int place, int rank)
{
    unsigned x = (unsigned)call * 2654435761u ^ (unsigned)place * 40503u ^ (unsigned)rank * 2246822519u;
    return (int)((x ^ x >> 15) % 1000);
}

static void check_all(const char *what, int call, const int *found, int first, int count, int stride, int (*expected)(int, int, int), int extra)
{
    int i;
    for (i = 0; i < count; i++)
        if (found[(first + i) * stride] != expected(call, i, extra)) {
            CHECK_FAIL("%s, call %d: element %d is %d and not %d", what, call, first + i, found[(first + i) * stride], expected(call, i, extra));
            return;
        }
}

static int size_, base_;

static int sum(int call, int place, int unused)
{
    int rank, all = 0;
    (void)unused;
    for (rank = 0; rank < size_; rank++) all += value(call, base_ + place, rank);
    return all;
}

static int block(int call, int place, int rank)
{
    return value(call, base_ + place, rank);
}

static void put_values(int call, int *to, int count, int stride, int rank)
{
    int i;
    for (i = 0; i < count; i++) to[i * stride] = value(call, i, rank);
}

/* All calls of one length. */
static void calls(int me, int size)
{
    int call, rank, total = length * size;
    int *out = malloc(2 * sizeof(int) * (size_t)total), *in = malloc(2 * sizeof(int) * (size_t)total);
    MPI_Datatype with_gaps, every_second;
    CHECK_OK(MPI_Type_vector(length, 1, 2, MPI_INT, &with_gaps));
    CHECK_OK(MPI_Type_create_resized(with_gaps, 0, 2 * length * (MPI_Aint)sizeof(int), &every_second));
    CHECK_OK(MPI_Type_commit(&every_second));
    for (call = 0; call < CALLS; call++) {
        /* The last calls with gaps at one rank. */
        int gaps = call > CALLS - 3 && me == 1, stride = gaps ? 2 : 1, count = gaps ? 1 : length;
        MPI_Datatype type = gaps ? every_second : MPI_INT;

        put_values(call, out, total, stride, me);
        memset(in, 0xee, 2 * sizeof(int) * (size_t)total);
        CHECK_OK(MPI_Alltoall(out, count, type, in, length, MPI_INT, MPI_COMM_WORLD));
        for (base_ = 0; base_ < total; base_ += length) check_all("alltoall's contribution", call, out, base_, length, stride, block, me);
        memset(out, 0x11, 2 * sizeof(int) * (size_t)total);
        base_ = me * length;
        for (rank = 0; rank < size; rank++) check_all("alltoall", call, in, rank * length, length, 1, block, rank);

        put_values(call, in, total, 1, me);
        CHECK_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, length, MPI_INT, MPI_COMM_WORLD));
        for (rank = 0; rank < size; rank++) check_all("alltoall in place", call, in, rank * length, length, 1, block, rank);

        base_ = 0;
        put_values(call, out, length, 1, me);
        memset(in, 0xee, 2 * sizeof(int) * (size_t)total);
        CHECK_OK(MPI_Allgather(out, length, MPI_INT, in, count, type, MPI_COMM_WORLD));
        memset(out, 0x11, sizeof(int) * length);
        for (rank = 0; rank < size; rank++) check_all("allgather", call, in, rank * length, length, stride, block, rank);

        memset(in, 0xee, 2 * sizeof(int) * (size_t)total);
        put_values(call, in + me * length, length, 1, me);
        CHECK_OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, length, MPI_INT, MPI_COMM_WORLD));
        for (rank = 0; rank < size; rank++) check_all("allgather in place", call, in, rank * length, length, 1, block, rank);

        put_values(call, out, length, 1, me);
        CHECK_OK(MPI_Allreduce(out, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        check_all("allreduce's contribution", call, out, 0, length, 1, block, me);
        memset(out, 0x11, sizeof(int) * length);
        check_all("allreduce", call, in, 0, length, 1, sum, 0);

        put_values(call, in, length, 1, me);
        CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        check_all("allreduce in place", call, in, 0, length, 1, sum, 0);

        rank = call % size;
        put_values(call, out, length, 1, me);
        CHECK_OK(MPI_Reduce(out, me == rank ? in : NULL, length, MPI_INT, MPI_SUM, rank, MPI_COMM_WORLD));
        memset(out, 0x11, sizeof(int) * length);
        if (me == rank) check_all("reduce", call, in, 0, length, 1, sum, 0);

        put_values(call, me == rank ? in : out, length, 1, me);
        CHECK_OK(MPI_Reduce(me == rank ? MPI_IN_PLACE : out, me == rank ? in : NULL, length, MPI_INT, MPI_SUM, rank, MPI_COMM_WORLD));
        if (me == rank) check_all("reduce in place", call, in, 0, length, 1, sum, 0);
        else check_all("the contribution to a reduce in place", call, out, 0, length, 1, block, me);

        put_values(call, out, total, 1, me);
        CHECK_OK(MPI_Reduce_scatter_block(out, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        memset(out, 0x11, sizeof(int) * (size_t)total);
        base_ = me * length;
        check_all("reduce_scatter_block", call, in, 0, length, 1, sum, 0);

        put_values(call, in, total, 1, me);
        CHECK_OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        check_all("reduce_scatter_block in place", call, in, 0, length, 1, sum, 0);
    }
    CHECK_OK(MPI_Type_free(&with_gaps));
    CHECK_OK(MPI_Type_free(&every_second));
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    size_ = check_size;
    for (int i = 0; i < COUNTS; i++) {
        length = (int[COUNTS]){10000, 20000}[i];
        calls(check_rank, check_size);
    }
    return check_end();
}
