/* One-way bandwidth between two ranks. */
#include "pairs.h"

static const struct program program = {
    .name = "bw",
    .purpose = "MPI bandwidth",
    .method = "One rank sends windows of nonblocking messages, the other answers each window with four bytes.\n"
              "MB/s are 10^6 bytes a second.",
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
    run_bandwidth(&program, 0);
    MPI_Finalize();
    return 0;
}
