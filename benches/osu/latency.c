/* Half a round trip between two ranks. */
#include "pairs.h"

static const struct program program = {
    .name = "latency",
    .purpose = "MPI latency",
    .method = "Two ranks send one message to and fro; the figure is half of a round trip.",
    .columns = {"Latency (us)"},
    .sized = 1,
    .least_ranks = 2,
    .even = 1,
    .min = 1,
    .max = 4 << 20,
};

int main(int argc, char **argv)
{
    start(&argc, &argv, &program);
    if (ranks != 2)
        give_up("%s: works with 2 ranks, started with %d; %s is for more pairs", program.name, ranks, "multi_lat");
    run_latency(&program);
    MPI_Finalize();
    return 0;
}
