/* One send against the same bytes in eight partitions: half round trips of both, batch by batch in turns. */
#include "pairs.h"

enum { PARTITIONS = 8, MOST_BATCHES = 4000 };

static const struct program program = {
    .name = "partitions",
    .purpose = "MPI partitioned latency against one send",
    .method = "Two ranks pass a message to and fro, as MPI_Send and MPI_Recv, and as eight partitions that are marked one\n"
              "after the other, in short batches by turns. Figures are 10th percentiles of batches; asked says that the\n"
              "receiver asks for every partition (MPI_Parrived) before it completes the operation. Bare is one send with\n"
              "MPI_Aint_add, which adds two numbers, in the place of the other calls: the least that as many calls take.",
    .columns = {"One send (us)", "8 partitions (us)", "8 asked for (us)", "Bare calls (us)", "8 over one send", "Bare over send"},
    .sized = 1,
    .least_ranks = 2,
    .even = 1,
    .min = PARTITIONS,
    .max = 1 << 20,
};

static char *out, *in;
static MPI_Request requests[2]; /* send, receive */

/* A round trip in partitions. */
static void in_parts(int asks)
{
    int turn, i, here;
    for (turn = 0; turn < 2; turn++) {
        if ((turn == 0) == lower_half()) {
            MPI_Start(&requests[0]);
            for (i = 0; i < PARTITIONS; i++)
                MPI_Pready(i, requests[0]);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        } else {
            MPI_Start(&requests[1]);
            for (i = 0; asks && i < PARTITIONS; i++)
                do
                    MPI_Parrived(requests[1], i, &here);
                while (!here);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
        }
    }
}

/* The calls of a round trip in partitions, but such as do nothing for all except the last mark and the wait of the receive. The brackets keep
 * out a macro of that name. */
static MPI_Aint in_bare_calls(int size, MPI_Aint sum)
{
    int turn, i;
    for (turn = 0; turn < 2; turn++) {
        sum = (MPI_Aint_add)(sum, 1);
        if ((turn == 0) == lower_half()) {
            for (i = 1; i < PARTITIONS; i++)
                sum = (MPI_Aint_add)(sum, i);
            MPI_Send(out, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD);
            sum = (MPI_Aint_add)(sum, 1);
        } else {
            MPI_Recv(in, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
    return sum;
}

enum way { ONE_SEND, IN_PARTS, ASKED, BARE, WAYS };
static double samples[WAYS][MOST_BATCHES];

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of half a round trip each way of sending. A request that was asked for single partitions is not one of which only the whole is
 * awaited, so each of the two ways has its own requests. */
static void measure(size_t size, double *values)
{
    int part = (int)(size / PARTITIONS), calls = iterations_for(size) / 200, batches = 400, batch, i, way;
    MPI_Request own[BARE][2];
    MPI_Aint sum = 0;
    if (calls < 1)
        calls = 1;
    for (way = IN_PARTS; way < BARE; way++) {
        MPI_Psend_init(out, PARTITIONS, part, MPI_CHAR, partner(), way, MPI_COMM_WORLD, MPI_INFO_NULL, &own[way][0]);
        MPI_Precv_init(in, PARTITIONS, part, MPI_CHAR, partner(), way, MPI_COMM_WORLD, MPI_INFO_NULL, &own[way][1]);
    }
    for (batch = -batches / 10; batch < batches; batch++)
        for (way = ONE_SEND; way < WAYS; way++) {
            double began;
            if (way == IN_PARTS || way == ASKED)
                memcpy(requests, own[way], sizeof requests);
            MPI_Barrier(MPI_COMM_WORLD);
            began = MPI_Wtime();
            for (i = 0; i < calls; i++) {
                if (way == ONE_SEND)
                    ping_pong(out, in, (int)size);
                else if (way == BARE)
                    sum = in_bare_calls((int)size, sum);
                else
                    in_parts(way == ASKED);
            }
            if (batch >= 0)
                samples[way][batch] = (MPI_Wtime() - began) / (2.0 * calls) * 1e6;
        }
    for (way = 0; way < WAYS; way++) {
        qsort(samples[way], (size_t)batches, sizeof samples[way][0], ascending);
        values[way] = samples[way][batches / 10];
    }
    values[WAYS] = values[IN_PARTS] / values[ONE_SEND];
    values[WAYS + 1] = values[BARE] / values[ONE_SEND];
    for (way = IN_PARTS; way < BARE; way++)
        for (i = 0; i < 2; i++)
            MPI_Request_free(&own[way][i]);
}

/* The same way with different data in every message, each checked. */
static void check_parts(size_t size)
{
    int i, way;
    for (way = 0; way < 2; way++) {
        MPI_Psend_init(out, PARTITIONS, (int)(size / PARTITIONS), MPI_CHAR, partner(), way, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(in, PARTITIONS, (int)(size / PARTITIONS), MPI_CHAR, partner(), way, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
        for (i = 0; i < CHECKED_MESSAGES; i++) {
            fill(out, size, (unsigned)(rank + i));
            in_parts(way);
            check(in, size, (unsigned)(partner() + i));
        }
        for (i = 0; i < 2; i++)
            MPI_Request_free(&requests[i]);
    }
}

int main(int argc, char **argv)
{
    size_t size;
    double values[MAX_COLUMNS];
    start(&argc, &argv, &program);
    if (ranks != 2)
        give_up("%s: works with 2 ranks, started with %d", program.name, ranks);
    if (options.min < PARTITIONS || options.min % PARTITIONS)
        give_up("%s: sizes are of %d partitions, so multiples of %d", program.name, PARTITIONS, PARTITIONS);
    out = buffer(options.max);
    in = buffer(options.max);
    print_head(&program);
    for (size = options.min; size <= options.max; size = next_size(size)) {
        measure(size, values);
        if (options.check)
            check_parts(size);
        print_size_row(&program, size, values);
    }
    MPI_Finalize();
    return 0;
}
