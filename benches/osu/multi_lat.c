/* Half a round trip of many pairs at once. */
#include "pairs.h"

static const struct program program = {
    .name = "multi_lat",
    .purpose = "MPI latency of many pairs at once",
    .method = "Rank r of the lower half and rank r + n/2 send one message to and fro, all pairs at the same time; the figure is the\n"
              "mean half round trip.",
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
    run_latency(&program);
    MPI_Finalize();
    return 0;
}
