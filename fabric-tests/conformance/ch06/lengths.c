/* Random sequences of blocking collectives of every length from nothing to many pieces, in place and not, with derived types at some
 * ranks only, on communicators that come and go; results of reductions are the same at all ranks.
 *
 * Covers: 6.1, 6.3, 6.4, 6.5, 6.6, 6.7, 6.8, 6.9.1, 6.9.6, 6.10.1
 * Ranks: 1 2 3 4 5 8
 * Timeout: 120
 */
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 40000 };
static unsigned state = 11;
static int *out, *in;

static unsigned roll(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 8) % n;
}

static int value(unsigned call, unsigned place, unsigned rank)
{
    unsigned x = call * 2654435761u ^ place * 40503u ^ rank * 2246822519u;
    return (int)((x ^ x >> 15) % 1000);
}

static int is(int found, int expected, const char *what, unsigned call, int place)
{
    if (found != expected)
        fprintf(stderr, "%s: call %u, element %d is %d and not %d\n", what, call, place, found, expected);
    return found == expected;
}

/* One call; everything random is the same at all ranks. */
static void one(MPI_Comm comm, int me, int n, unsigned call)
{
    static const unsigned most[] = {4, 30, 600, LONGEST};
    unsigned kind = roll(9), root = roll((unsigned)n);
    int count = (int)roll(most[roll(4)]), in_place = roll(3) == 0, i, j, sum;
    MPI_Datatype every_second;
    switch (kind) {
    case 0:
        CHECK_OK(MPI_Barrier(comm));
        break;
    case 1: /* Every second element at odd ranks. */
        for (i = 0; i < count; i++)
            in[me % 2 ? 2 * i : i] = me == (int)root ? value(call, i, root) : -1;
        CHECK_OK(MPI_Type_vector(count, 1, 2, MPI_INT, &every_second));
        CHECK_OK(MPI_Type_commit(&every_second));
        CHECK_OK(MPI_Bcast(in, me % 2 ? 1 : count, me % 2 ? every_second : MPI_INT, (int)root, comm));
        CHECK_OK(MPI_Type_free(&every_second));
        for (i = 0; i < count; i++)
            CHECK(is(in[me % 2 ? 2 * i : i], value(call, i, root), "bcast", call, i));
        break;
    case 2:
    case 3:
        in_place = in_place && (kind == 3 || me == (int)root);
        for (i = 0; i < count; i++) {
            out[i] = value(call, i, me);
            in[i] = in_place ? out[i] : -1;
        }
        if (kind == 3)
            CHECK_OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : out, in, count, MPI_INT, MPI_SUM, comm));
        else
            CHECK_OK(MPI_Reduce(in_place ? MPI_IN_PLACE : out, in, count, MPI_INT, MPI_SUM, (int)root, comm));
        for (i = 0; (kind == 3 || me == (int)root) && i < count; i++) {
            for (sum = j = 0; j < n; j++)
                sum += value(call, i, j);
            CHECK(is(in[i], sum, "reduction", call, i));
        }
        break;
    case 4:
    case 5:
        in_place = in_place && (kind == 4 || me == (int)root);
        for (i = 0; i < count; i++)
            (in_place ? in + (size_t)me * count : out)[i] = value(call, i, me);
        if (kind == 4)
            CHECK_OK(MPI_Allgather(in_place ? MPI_IN_PLACE : out, count, MPI_INT, in, count, MPI_INT, comm));
        else
            CHECK_OK(MPI_Gather(in_place ? MPI_IN_PLACE : out, count, MPI_INT, in, count, MPI_INT, (int)root, comm));
        for (j = 0; (kind == 4 || me == (int)root) && j < n; j++)
            for (i = 0; i < count; i++)
                CHECK(is(in[(size_t)j * count + i], value(call, i, j), "gather", call, i));
        break;
    default:
        for (j = 0; j < n; j++)
            for (i = 0; i < count; i++) {
                out[(size_t)j * count + i] = value(call + j, i, kind == 6 ? (int)root : me);
                in[(size_t)j * count + i] = in_place && kind != 6 ? out[(size_t)j * count + i] : -1;
            }
        if (kind == 6) {
            in_place = in_place && me == (int)root;
            CHECK_OK(MPI_Scatter(out, count, MPI_INT, in_place ? MPI_IN_PLACE : in, count, MPI_INT, (int)root, comm));
            for (i = 0; !in_place && i < count; i++)
                CHECK(is(in[i], value(call + me, i, root), "scatter", call, i));
        } else if (kind == 7) {
            CHECK_OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : out, count, MPI_INT, in, count, MPI_INT, comm));
            for (j = 0; j < n; j++)
                for (i = 0; i < count; i++)
                    CHECK(is(in[(size_t)j * count + i], value(call + me, i, j), "alltoall", call, i));
        } else {
            CHECK_OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : out, in, count, MPI_INT, MPI_SUM, comm));
            for (i = 0; i < count; i++) {
                for (sum = j = 0; j < n; j++)
                    sum += value(call + me, i, j);
                CHECK(is(in[i], sum, "reduce_scatter", call, i));
            }
        }
    }
}

/* Sums whose bits depend on the order are the same at all ranks. */
static void same_bits(MPI_Comm comm, int me, int n, int count)
{
    double *given = malloc(sizeof *given * count), *got = malloc(sizeof *got * count), *theirs = malloc(sizeof *theirs * count);
    for (int i = 0; i < count; i++)
        given[i] = (value(n, i, me) - 500) * (i % 3 ? 1e-12 : 1e12) + 1.0 / (i + me + 1);
    CHECK_OK(MPI_Allreduce(given, got, count, MPI_DOUBLE, MPI_SUM, comm));
    memcpy(theirs, got, sizeof *got * count);
    CHECK_OK(MPI_Bcast(theirs, count, MPI_DOUBLE, n - 1, comm));
    CHECK(memcmp(got, theirs, sizeof *got * count) == 0);
    free(given);
    free(got);
    free(theirs);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me, n;
    MPI_Comm comm, kept[12];
    out = malloc(sizeof *out * LONGEST * (size_t)check_size + sizeof *out);
    in = malloc(sizeof *in * LONGEST * (size_t)(check_size + 1) + sizeof *in);
    for (unsigned call = 0; call < 400; call++)
        one(MPI_COMM_WORLD, check_rank, check_size, call);
    /* Short-lived communicators use the same memory again and again; some stay. */
    for (int turn = 0; turn < 60; turn++) {
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comm));
        CHECK_OK(MPI_Comm_rank(comm, &me));
        CHECK_OK(MPI_Comm_size(comm, &n));
        for (unsigned call = 0; call < 6; call++)
            one(comm, me, n, call + 1000);
        if (turn % 5)
            CHECK_OK(MPI_Comm_free(&comm));
        else
            kept[turn / 5] = comm;
    }
    for (int turn = 0; turn < 12; turn++) {
        CHECK_OK(MPI_Comm_rank(kept[turn], &me));
        for (unsigned call = 0; call < 6; call++)
            one(kept[turn], me, check_size, call + 2000);
        same_bits(kept[turn], me, check_size, 1 + turn * turn * 150);
        CHECK_OK(MPI_Comm_free(&kept[turn]));
    }
    free(out);
    free(in);
    return check_end();
}
