/* Bandwidth and message rate of many pairs at once. */
#include "pairs.h"

static const struct program program = {
    .name = "mbw_mr",
    .purpose = "MPI multi-pair bandwidth and message rate",
    .method = "Rank r of the lower half sends windows of nonblocking messages to rank r + n/2, all pairs at the same time;\n"
              "the sum over all pairs.",
    .columns = {"Bandwidth (MB/s)", "Messages/s"},
    .sized = 1,
    .least_ranks = 2,
    .even = 1,
    .windowed = 1,
    .min = 1,
    .max = 4 << 20,
};

int main(int argc, char **argv)
{
    start(&argc, &argv, &program);
    run_bandwidth(&program, 0);
    MPI_Finalize();
    return 0;
}
