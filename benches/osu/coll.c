/* Latency of collective operations. */
#include "common.h"

static const struct program program = {
    .name = "coll",
    .purpose = "MPI latency of a collective operation",
    .method = "All ranks call the operation, with a barrier outside the clock between two calls; each rank's mean time is taken,\n"
              "and the mean, smallest and largest of the ranks are printed. The size is what one rank contributes\n"
              "(to each of the others, for alltoall). Operations: barrier bcast reduce allreduce allgather alltoall.",
    .columns = {"Avg latency (us)", "Min (us)", "Max (us)"},
    .sized = 1,
    .least_ranks = 1,
    .min = 4,
    .max = 1 << 20,
    .operands = "OPERATION",
};

static char *out, *in;

/* The root of rooted operations changes with every call, so that no rank is always ahead. */
static void barrier(size_t size, int call)
{
    (void)size, (void)call;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(size_t size, int call)
{
    MPI_Bcast(rank == call % ranks ? out : in, (int)size, MPI_CHAR, call % ranks, MPI_COMM_WORLD);
}

static void reduce(size_t size, int call)
{
    MPI_Reduce(out, in, (int)(size / sizeof(int)), MPI_INT, MPI_SUM, call % ranks, MPI_COMM_WORLD);
}

static void allreduce(size_t size, int call)
{
    (void)call;
    MPI_Allreduce(out, in, (int)(size / sizeof(int)), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(size_t size, int call)
{
    (void)call;
    MPI_Allgather(out, (int)size, MPI_CHAR, in, (int)size, MPI_CHAR, MPI_COMM_WORLD);
}

static void alltoall(size_t size, int call)
{
    (void)call;
    MPI_Alltoall(out, (int)size, MPI_CHAR, in, (int)size, MPI_CHAR, MPI_COMM_WORLD);
}

/* The integers that a reduction adds, and what comes out. */
static int term(int of, size_t place, int call)
{
    return (int)(place % 1000) * (of + 1) + call;
}

static void check_reduction(size_t size, int call)
{
    size_t place;
    int of, *result = (int *)in;
    for (place = 0; place < size / sizeof(int); place++) {
        int sum = 0;
        for (of = 0; of < ranks; of++)
            sum += term(of, place, call);
        wrong_bytes += result[place] != sum ? (long)sizeof(int) : 0;
    }
}

static void check_operation(const char *name, void (*operation)(size_t, int), size_t size)
{
    int call, of;
    size_t place;
    for (call = 0; call < CHECKED_MESSAGES; call++) {
        if (strstr(name, "reduce")) {
            for (place = 0; place < size / sizeof(int); place++)
                ((int *)out)[place] = term(rank, place, call);
        } else if (!strcmp(name, "alltoall")) {
            for (of = 0; of < ranks; of++)
                fill(out + of * size, size, (unsigned)(rank * ranks + of + call));
        } else {
            fill(out, size, (unsigned)(rank + call));
        }
        operation(size, call);
        if (!strcmp(name, "bcast") && rank != call % ranks)
            check(in, size, (unsigned)(call % ranks + call));
        else if (!strcmp(name, "allreduce") || (!strcmp(name, "reduce") && rank == call % ranks))
            check_reduction(size, call);
        else if (!strcmp(name, "allgather"))
            for (of = 0; of < ranks; of++)
                check(in + of * size, size, (unsigned)(of + call));
        else if (!strcmp(name, "alltoall"))
            for (of = 0; of < ranks; of++)
                check(in + of * size, size, (unsigned)(of * ranks + rank + call));
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*operation)(size_t, int);
    } known[] = {{"barrier", barrier},     {"bcast", bcast},         {"reduce", reduce},
                 {"allreduce", allreduce}, {"allgather", allgather}, {"alltoall", alltoall}};
    struct program p = program;
    void (*operation)(size_t, int) = NULL;
    char purpose[80];
    size_t size, k;

    start(&argc, &argv, &program);
    for (k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(options.operand, known[k].name))
            operation = known[k].operation;
    if (!operation)
        give_up("coll: there is no operation '%s' here (-h lists them)", options.operand);
    snprintf(purpose, sizeof purpose, "MPI %s latency", options.operand);
    p.purpose = purpose;
    if (operation == barrier) {
        options.min = options.max = 0;
        options.check = 0;
    }
    out = buffer(options.max * (operation == alltoall ? ranks : 1));
    in = buffer(options.max * ranks);
    print_head(&p);
    for (size = options.min; size <= options.max; size = next_size(size)) {
        int i, count = iterations_for(size) / (ranks > 2 ? 5 : 1) + 1, warmup = warmup_for(size) / 5 + 1;
        double mine = 0, values[MAX_COLUMNS];
        for (i = -warmup; i < count; i++) {
            double began;
            MPI_Barrier(MPI_COMM_WORLD);
            began = MPI_Wtime();
            operation(size, i + warmup);
            if (i >= 0)
                mine += MPI_Wtime() - began;
        }
        if (options.check)
            check_operation(options.operand, operation, size);
        spread(mine / count * 1e6, &values[1], &values[0], &values[2]);
        print_size_row(&p, size, values);
        if (operation == barrier)
            break;
    }
    MPI_Finalize();
    return 0;
}
