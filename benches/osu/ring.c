/* A message that goes round all ranks. */
#include "common.h"

static const struct program program = {
    .name = "ring",
    .purpose = "MPI ring: one message passed on by every rank in turn",
    .method = "Rank 0 sends to rank 1, rank 1 to rank 2, and so on until the message is back: the figure is the time of one hop.\n"
              "With more ranks than cores it shows how fast a waiting rank leaves its core to the next.",
    .columns = {"Hop (us)", "Lap (us)"},
    .sized = 1,
    .least_ranks = 2,
    .min = 1,
    .max = 64 << 10,
};

static void lap(char *data, size_t size)
{
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (rank == 0)
        MPI_Send(data, (int)size, MPI_CHAR, next, 1, MPI_COMM_WORLD);
    MPI_Recv(data, (int)size, MPI_CHAR, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(data, (int)size, MPI_CHAR, next, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    size_t size;
    char *data;
    start(&argc, &argv, &program);
    data = buffer(options.max);
    print_head(&program);
    for (size = options.min; size <= options.max; size = next_size(size)) {
        int i, count = iterations_for(size) / ranks + 1, warmup = warmup_for(size) / ranks;
        double began = 0, values[MAX_COLUMNS];
        MPI_Barrier(MPI_COMM_WORLD);
        for (i = -warmup; i < count; i++) {
            if (i == 0)
                began = MPI_Wtime();
            lap(data, size);
        }
        values[1] = (MPI_Wtime() - began) / count * 1e6;
        values[0] = values[1] / ranks;
        for (i = 0; options.check && i < CHECKED_MESSAGES; i++) {
            if (rank == 0)
                fill(data, size, (unsigned)i);
            lap(data, size);
            if (rank == 0)
                check(data, size, (unsigned)i);
        }
        print_size_row(&program, size, values);
    }
    MPI_Finalize();
    return 0;
}
