/* How long MPI_Init takes. */
#define _POSIX_C_SOURCE 200809L
#include "common.h"
#include <time.h>

static const struct program program = {
    .name = "init",
    .purpose = "MPI_Init time",
    .method = "Each rank's time from entering MPI_Init to leaving it; smallest, mean and largest of the ranks.\n"
              "What the launcher needs comes on top: time `mpiexec -n 2 ./init`.",
    .columns = {"Avg (ms)", "Min (ms)", "Max (ms)"},
    .least_ranks = 1,
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    double began = now(), took, values[MAX_COLUMNS];
    start(&argc, &argv, &program);
    took = now() - began;
    print_head(&program);
    spread(took * 1e3, &values[1], &values[0], &values[2]);
    print_row(&program, "init", values);
    MPI_Finalize();
    return 0;
}
