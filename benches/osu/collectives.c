/* Every collective, blocking, nonblocking with overlap, and persistent. */
#include "compute.h"
#include "operations.h"

static const struct program program = {
    .name = "collectives",
    .purpose = "MPI collectives: blocking, nonblocking with overlap, persistent",
    .method = "All ranks call the operation, with a barrier outside the clock between two calls; the largest mean of the ranks is\n"
              "printed. Overlap: the operation is started, the processor computes for as long as the nonblocking operation takes\n"
              "alone, then it is completed; 100 % is when that takes no longer than computing does. Operations: those of chapter\n"
              "6 and section 8.6 in lower case (barrier, ..., neighbor_alltoallw); roots change with every call.",
    .columns = {"Blocking (us)", "Nonblocking (us)", "Overlap (%)", "Persistent (us)"},
    .sized = 1,
    .least_ranks = 1,
    .min = 8,
    .max = 1 << 20,
    .operands = "OPERATION",
};

static const struct operation *find_operation(const char *name)
{
    int k;
    for (k = 0; k < OPERATIONS; k++)
        if (!strcmp(operations[k].name, name))
            return &operations[k];
    return NULL;
}

static double largest(double mine)
{
    double most;
    MPI_Allreduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

/* Seconds of one call in a form, with computation between start and completion. */
static double time_of(const struct operation *operation, enum form form, size_t size, long steps, int count)
{
    /* Persistent ones: one for each root, started in turn. */
    enum { MOST_ROOTS = 64 };
    MPI_Request kept[MOST_ROOTS], once = MPI_REQUEST_NULL;
    double took = 0;
    int i, warmup = count / 10 + 2, roots = ranks < MOST_ROOTS ? ranks : MOST_ROOTS;
    for (i = 0; form == PERSISTENT && i < roots; i++)
        operation->run(size, i, PERSISTENT, &kept[i]);
    for (i = -warmup; i < count; i++) {
        double began;
        int root = (i + warmup) % roots;
        MPI_Request *request = form == PERSISTENT ? &kept[root] : &once;
        MPI_Barrier(MPI_COMM_WORLD);
        began = MPI_Wtime();
        if (form == PERSISTENT)
            MPI_Start(request);
        else
            operation->run(size, root, form, request);
        compute(steps);
        if (form != BLOCKING)
            MPI_Wait(request, MPI_STATUS_IGNORE);
        if (i >= 0)
            took += MPI_Wtime() - began;
    }
    for (i = 0; form == PERSISTENT && i < roots; i++)
        MPI_Request_free(&kept[i]);
    return largest(took / count);
}

int main(int argc, char **argv)
{
    const struct operation *operation;
    struct program p = program;
    char purpose[80];
    size_t size, blocks;

    start(&argc, &argv, &program);
    operation = find_operation(options.operand);
    if (!operation)
        give_up("collectives: there is no operation '%s' here (-h tells which)", options.operand);
    snprintf(purpose, sizeof purpose, "MPI %s, three forms", options.operand);
    p.purpose = purpose;
    if (operation->sizeless)
        options.min = options.max = 0;
    blocks = ranks > 2 ? (size_t)ranks : 2;
    make_operands(buffer(options.max * blocks), buffer(options.max * blocks));
    calibrate();
    print_head(&p);
    for (size = options.min; size <= options.max; size = next_size(size)) {
        int count = iterations_for(size) / (ranks > 2 ? 5 : 1) + 1;
        double values[MAX_COLUMNS], alone, both, computing;
        long steps;
        set_size(operation, size);
        values[0] = time_of(operation, BLOCKING, size, 0, count) * 1e6;
        alone = time_of(operation, NONBLOCKING, size, 0, count);
        steps = (long)(alone * steps_per_second);
        computing = (double)steps / steps_per_second;
        both = time_of(operation, NONBLOCKING, size, steps, count);
        values[1] = alone * 1e6;
        values[2] = 100 * (1 - (both - computing) / alone);
        values[2] = values[2] < 0 ? 0 : values[2] > 100 ? 100 : values[2];
#if MPI_VERSION >= 4
        values[3] = time_of(operation, PERSISTENT, size, 0, count) * 1e6;
#else
        values[3] = 0;
#endif
        print_size_row(&p, size, values);
        if (operation->sizeless)
            break;
    }
    free_operands();
    MPI_Finalize();
    return 0;
}
