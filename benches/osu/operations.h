/* Every collective operation of chapter 6 and every neighbourhood collective of section 8.6, in its three forms, on buffers of one
 * size: each rank contributes `size` bytes, or gives `size` bytes to each of the others. The neighbourhoods are those of a ring. */
#ifndef WEFT_BENCH_OPERATIONS_H
#define WEFT_BENCH_OPERATIONS_H

#include "common.h"

enum form { BLOCKING, NONBLOCKING, PERSISTENT };

static struct {
    char *out, *in;
    MPI_Comm ring; /* MPI_COMM_NULL until a neighbourhood operation is wanted */
    int *counts, *places; /* for the `v` forms, as many as ranks or neighbours */
    MPI_Aint *distances;
    MPI_Datatype *types;
} operands;

#if MPI_VERSION >= 4
#define IF_PERSISTENT(...) __VA_ARGS__
#else
#define IF_PERSISTENT(...) give_up("this MPI has no persistent collectives")
#endif

#define OPERATION(Name, name, ...)                                                                                              \
    static void run_##name(size_t bytes, int root, enum form form, MPI_Request *request)                                        \
    {                                                                                                                           \
        char *out = operands.out, *in = operands.in;                                                                            \
        int size = (int)bytes, words = (int)(bytes / sizeof(double)), *counts = operands.counts, *places = operands.places;     \
        (void)out, (void)in, (void)size, (void)words, (void)counts, (void)places, (void)root;                                   \
        if (form == BLOCKING)                                                                                                   \
            MPI_##Name(__VA_ARGS__);                                                                                            \
        else if (form == NONBLOCKING)                                                                                           \
            MPI_I##name(__VA_ARGS__, request);                                                                                  \
        else                                                                                                                    \
            IF_PERSISTENT(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, request));                                              \
    }

#define WORLD MPI_COMM_WORLD
#define SUM MPI_DOUBLE, MPI_SUM
OPERATION(Barrier, barrier, WORLD)
OPERATION(Bcast, bcast, out, size, MPI_CHAR, root, WORLD)
OPERATION(Gather, gather, out, size, MPI_CHAR, in, size, MPI_CHAR, root, WORLD)
OPERATION(Gatherv, gatherv, out, size, MPI_CHAR, in, counts, places, MPI_CHAR, root, WORLD)
OPERATION(Scatter, scatter, out, size, MPI_CHAR, in, size, MPI_CHAR, root, WORLD)
OPERATION(Scatterv, scatterv, out, counts, places, MPI_CHAR, in, size, MPI_CHAR, root, WORLD)
OPERATION(Allgather, allgather, out, size, MPI_CHAR, in, size, MPI_CHAR, WORLD)
OPERATION(Allgatherv, allgatherv, out, size, MPI_CHAR, in, counts, places, MPI_CHAR, WORLD)
OPERATION(Alltoall, alltoall, out, size, MPI_CHAR, in, size, MPI_CHAR, WORLD)
OPERATION(Alltoallv, alltoallv, out, counts, places, MPI_CHAR, in, counts, places, MPI_CHAR, WORLD)
OPERATION(Alltoallw, alltoallw, out, counts, places, operands.types, in, counts, places, operands.types, WORLD)
OPERATION(Reduce, reduce, out, in, words, SUM, root, WORLD)
OPERATION(Allreduce, allreduce, out, in, words, SUM, WORLD)
OPERATION(Reduce_scatter_block, reduce_scatter_block, out, in, words, SUM, WORLD)
OPERATION(Reduce_scatter, reduce_scatter, out, in, counts, SUM, WORLD)
OPERATION(Scan, scan, out, in, words, SUM, WORLD)
OPERATION(Exscan, exscan, out, in, words, SUM, WORLD)
#define RING operands.ring
OPERATION(Neighbor_allgather, neighbor_allgather, out, size, MPI_CHAR, in, size, MPI_CHAR, RING)
OPERATION(Neighbor_allgatherv, neighbor_allgatherv, out, size, MPI_CHAR, in, counts, places, MPI_CHAR, RING)
OPERATION(Neighbor_alltoall, neighbor_alltoall, out, size, MPI_CHAR, in, size, MPI_CHAR, RING)
OPERATION(Neighbor_alltoallv, neighbor_alltoallv, out, counts, places, MPI_CHAR, in, counts, places, MPI_CHAR, RING)
OPERATION(Neighbor_alltoallw, neighbor_alltoallw, out, counts, operands.distances, operands.types, in, counts, operands.distances,
          operands.types, RING)
#undef SUM
#undef WORLD
#undef RING

struct operation {
    const char *name;
    void (*run)(size_t, int, enum form, MPI_Request *);
    int sizeless;
    int in_words; /* the counts are of doubles, not of bytes */
};

static const struct operation operations[] = {
    {"barrier", run_barrier, 1, 0},
    {"bcast", run_bcast, 0, 0},
    {"gather", run_gather, 0, 0},
    {"gatherv", run_gatherv, 0, 0},
    {"scatter", run_scatter, 0, 0},
    {"scatterv", run_scatterv, 0, 0},
    {"allgather", run_allgather, 0, 0},
    {"allgatherv", run_allgatherv, 0, 0},
    {"alltoall", run_alltoall, 0, 0},
    {"alltoallv", run_alltoallv, 0, 0},
    {"alltoallw", run_alltoallw, 0, 0},
    {"reduce", run_reduce, 0, 0},
    {"allreduce", run_allreduce, 0, 0},
    {"reduce_scatter_block", run_reduce_scatter_block, 0, 0},
    {"reduce_scatter", run_reduce_scatter, 0, 1},
    {"scan", run_scan, 0, 0},
    {"exscan", run_exscan, 0, 0},
    {"neighbor_allgather", run_neighbor_allgather, 0, 0},
    {"neighbor_allgatherv", run_neighbor_allgatherv, 0, 0},
    {"neighbor_alltoall", run_neighbor_alltoall, 0, 0},
    {"neighbor_alltoallv", run_neighbor_alltoallv, 0, 0},
    {"neighbor_alltoallw", run_neighbor_alltoallw, 0, 0},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* Buffers for contributions of up to `most` bytes, to be lent or made. Two neighbours are the most a rank of the ring has. */
static void make_operands(char *out, char *in)
{
    int blocks = ranks > 2 ? ranks : 2, periodic = 1, k;
    operands.out = out;
    operands.in = in;
    operands.counts = malloc(sizeof(int) * blocks);
    operands.places = malloc(sizeof(int) * blocks);
    operands.distances = malloc(sizeof(MPI_Aint) * blocks);
    operands.types = malloc(sizeof(MPI_Datatype) * blocks);
    for (k = 0; k < blocks; k++)
        operands.types[k] = MPI_CHAR;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &operands.ring);
}

/* Counts and displacements for contributions of `size` bytes. */
static void set_size(const struct operation *operation, size_t size)
{
    int blocks = ranks > 2 ? ranks : 2, k;
    for (k = 0; k < blocks; k++) {
        operands.counts[k] = (int)(operation->in_words ? size / sizeof(double) : size);
        operands.places[k] = (int)size * k;
        operands.distances[k] = (MPI_Aint)size * k;
    }
}

static void free_operands(void)
{
    MPI_Comm_free(&operands.ring);
    free(operands.counts);
    free(operands.places);
    free(operands.distances);
    free(operands.types);
}

#endif
