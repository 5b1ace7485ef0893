/* Distributed arrays: every process's elements in order, against the functions of the definition (section 5.1.4); bounds;
 * processes without elements; decoding; the errors.
 *
 * MPICH 5.0.2 dies of a division by zero here (a process without elements), and gives a true lower bound one element too low
 * for some cyclic arrays (5.1.8: the smallest displacement of the type map). The elements themselves are held against peers in
 * agreed.c.
 *
 * Covers: 5.1.4, 5.1.13
 * Ranks: 1
 */
#include "check.h"

enum { MOST = 1024, DIMS = 3 };

typedef struct {
    long places[MOST]; /* of the elements, in elements of the array */
    int count;
    long extent;
} Map;

/* cyclic() of the definition, element by element. */
static Map cyclic(long darg, long gsize, long r, long psize, const Map *old)
{
    Map map = {.count = 0, .extent = gsize * old->extent};
    long nblocks = (gsize + (darg - 1)) / darg, count = nblocks / psize, left_over = nblocks - count * psize;
    if (r < left_over) count = count + 1;
    long darg_last, num_in_last_cyclic = gsize % (psize * darg);
    if (num_in_last_cyclic == 0)
        darg_last = darg;
    else {
        darg_last = num_in_last_cyclic - darg * r;
        if (darg_last > darg) darg_last = darg;
        if (darg_last <= 0) darg_last = darg;
    }
    for (long block = 0; block < count; block++)
        for (long i = 0; i < (block == count - 1 ? darg_last : darg); i++)
            for (int k = 0; k < old->count; k++) {
                long at = r * darg + i + block * psize * darg;
                map.places[map.count++] = old->places[k] + at * old->extent;
            }
    return map;
}

static Map reference(int size, int rank, int ndims, const int *gsizes, const int *distribs, const int *dargs,
                     const int *psizes, int order)
{
    int r[DIMS], t_rank = rank, t_size = size;
    for (int i = 0; i < ndims; i++) {
        t_size = t_size / psizes[i];
        r[i] = t_rank / t_size;
        t_rank = t_rank % t_size;
    }
    Map map = {.places = {0}, .count = 1, .extent = 1};
    for (int step = 0; step < ndims; step++) {
        int i = order == MPI_ORDER_C ? ndims - step - 1 : step;
        long darg = dargs[i];
        if (distribs[i] == MPI_DISTRIBUTE_NONE) darg = gsizes[i];
        else if (darg == MPI_DISTRIBUTE_DFLT_DARG)
            darg = distribs[i] == MPI_DISTRIBUTE_BLOCK ? (gsizes[i] + psizes[i] - 1) / psizes[i] : 1;
        map = cyclic(darg, gsizes[i], r[i], psizes[i], &map);
    }
    return map;
}

static unsigned seed = 20261121;
static int below(int limit)
{
    seed = seed * 1103515245u + 12345u;
    return (int)((seed >> 8) % (unsigned)limit);
}

static void compare(int ndims, const int *gsizes, const int *distribs, const int *dargs, const int *psizes, int order)
{
    static int array[MOST], part[MOST], seen[MOST];
    int size = 1, total = 1;
    MPI_Count large[DIMS];
    for (int i = 0; i < ndims; i++) size *= psizes[i], total *= gsizes[i], large[i] = gsizes[i];
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < MOST; i++) array[i] = i;
    for (int rank = 0; rank < size; rank++) {
        Map map = reference(size, rank, ndims, gsizes, distribs, dargs, psizes, order);
        MPI_Datatype types[2];
        CHECK_OK(MPI_Type_create_darray(size, rank, ndims, gsizes, distribs, dargs, psizes, order, MPI_INT, &types[0]));
        CHECK_OK(MPI_Type_create_darray_c(size, rank, ndims, large, distribs, dargs, psizes, order, MPI_INT, &types[1]));
        for (int form = 0; form < 2; form++) {
            int bytes, position = 0;
            MPI_Aint lb, extent;
            CHECK_OK(MPI_Type_commit(&types[form]));
            CHECK_OK(MPI_Type_size(types[form], &bytes));
            CHECK_INT(bytes, map.count * (int)sizeof(int));
            CHECK_OK(MPI_Type_get_extent(types[form], &lb, &extent));
            CHECK_INT(lb, 0);
            CHECK_INT(extent, total * (int)sizeof(int));
            if (map.count) {
                long low = map.places[0], high = low;
                for (int i = 1; i < map.count; i++) {
                    low = map.places[i] < low ? map.places[i] : low;
                    high = map.places[i] > high ? map.places[i] : high;
                }
                CHECK_OK(MPI_Type_get_true_extent(types[form], &lb, &extent));
                CHECK_INT(lb, low * (int)sizeof(int));
                CHECK_INT(extent, (high - low + 1) * (int)sizeof(int));
            }
            CHECK_OK(MPI_Pack(array, 1, types[form], part, sizeof part, &position, MPI_COMM_SELF));
            CHECK_INT(position, bytes);
            for (int i = 0; i < map.count; i++) CHECK_INT(part[i], map.places[i]);
            CHECK_OK(MPI_Type_free(&types[form]));
        }
        for (int i = 0; i < map.count; i++) seen[map.places[i]]++;
    }
    /* Every element belongs to exactly one process. */
    for (int i = 0; i < total; i++) CHECK_INT(seen[i], 1);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int round = 0; round < 300; round++) {
        int ndims = 1 + below(DIMS), gsizes[DIMS], distribs[DIMS], dargs[DIMS], psizes[DIMS];
        for (int i = 0; i < ndims; i++) {
            gsizes[i] = 1 + below(9);
            psizes[i] = 1 + below(4);
            switch (below(5)) {
            case 0: distribs[i] = MPI_DISTRIBUTE_NONE, psizes[i] = 1, dargs[i] = below(3); break;
            case 1: distribs[i] = MPI_DISTRIBUTE_BLOCK, dargs[i] = MPI_DISTRIBUTE_DFLT_DARG; break;
            case 2:
                distribs[i] = MPI_DISTRIBUTE_BLOCK;
                dargs[i] = (gsizes[i] + psizes[i] - 1) / psizes[i] + below(2);
                break;
            case 3: distribs[i] = MPI_DISTRIBUTE_CYCLIC, dargs[i] = MPI_DISTRIBUTE_DFLT_DARG; break;
            default: distribs[i] = MPI_DISTRIBUTE_CYCLIC, dargs[i] = 1 + below(4);
            }
        }
        compare(ndims, gsizes, distribs, dargs, psizes, below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN);
    }

    /* A process without elements; the type of its elements has bounds all the same. */
    MPI_Datatype type;
    MPI_Aint lb, extent;
    int size, gsize = 3, distrib = MPI_DISTRIBUTE_BLOCK, darg = MPI_DISTRIBUTE_DFLT_DARG, psize = 5;
    CHECK_OK(MPI_Type_create_darray(5, 4, 1, &gsize, &distrib, &darg, &psize, MPI_ORDER_C, MPI_DOUBLE, &type));
    CHECK_OK(MPI_Type_size(type, &size));
    CHECK_INT(size, 0);
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK_INT(extent, 24);
    CHECK_OK(MPI_Type_free(&type));

    /* Example 5.7 and its decoding. */
    int gsizes[3] = {100, 200, 300}, psizes[3] = {2, 1, 3};
    int distribs[3] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK};
    int dargs[3] = {10, 0, MPI_DISTRIBUTE_DFLT_DARG};
    CHECK_OK(MPI_Type_create_darray(6, 3, 3, gsizes, distribs, dargs, psizes, MPI_ORDER_FORTRAN, MPI_FLOAT, &type));
    CHECK_OK(MPI_Type_size(type, &size));
    CHECK_INT(size, 50 * 200 * 100 * 4);
    int ni, na, nd, combiner, integers[16];
    MPI_Aint addresses[1];
    MPI_Datatype inner[1];
    CHECK_OK(MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner));
    CHECK_INT(combiner, MPI_COMBINER_DARRAY);
    CHECK_INT(ni, 16);
    CHECK_INT(na, 0);
    CHECK_INT(nd, 1);
    CHECK_OK(MPI_Type_get_contents(type, ni, na, nd, integers, addresses, inner));
    int wanted[16] = {6, 3, 3, 100, 200, 300, distribs[0], distribs[1], distribs[2], 10, 0, dargs[2], 2, 1, 3,
                      MPI_ORDER_FORTRAN};
    for (int i = 0; i < 16; i++) CHECK_INT(integers[i], wanted[i]);
    CHECK(inner[0] == MPI_FLOAT);
    CHECK_OK(MPI_Type_free(&type));

    /* Errors. */
    int wrong[3] = {2, 2, 3}, small[3] = {10, 0, 99};
    CHECK(MPI_Type_create_darray(6, 3, 3, gsizes, distribs, dargs, wrong, MPI_ORDER_C, MPI_FLOAT, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_create_darray(6, 3, 3, gsizes, distribs, small, psizes, MPI_ORDER_C, MPI_FLOAT, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_create_darray(6, 6, 3, gsizes, distribs, dargs, psizes, MPI_ORDER_C, MPI_FLOAT, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_create_darray(6, 3, 3, gsizes, distribs, dargs, psizes, 77, MPI_FLOAT, &type) != MPI_SUCCESS);
    return check_end();
}
