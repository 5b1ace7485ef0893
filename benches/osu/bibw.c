/* Bandwidth between two ranks, both ways at once. */
#include "pairs.h"

static const struct program program = {
    .name = "bibw",
    .purpose = "MPI bidirectional bandwidth",
    .method = "Both ranks send windows of nonblocking messages to each other; the sum of both ways in 10^6 bytes a second.",
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
    if (ranks != 2)
        give_up("%s: works with 2 ranks, started with %d; %s is for more pairs", program.name, ranks, "mbw_mr");
    run_bandwidth(&program, 1);
    MPI_Finalize();
    return 0;
}
