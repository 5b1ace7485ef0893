/* Traffic between pairs of ranks: rank r of the lower half with rank r + ranks/2. */
#ifndef WEFT_BENCH_PAIRS_H
#define WEFT_BENCH_PAIRS_H

#include "common.h"

enum { TAG_DATA = 1, TAG_ANSWER = 2 };

static int lower_half(void)
{
    return rank < ranks / 2;
}

static int partner(void)
{
    return lower_half() ? rank + ranks / 2 : rank - ranks / 2;
}

/* One message there and one back. */
static void ping_pong(char *out, char *in, int size)
{
    if (lower_half()) {
        MPI_Send(out, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD);
        MPI_Recv(in, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(in, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(out, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD);
    }
}

/* The table of half round trips, each the mean over all pairs. */
static void run_latency(const struct program *p)
{
    size_t size;
    char *out = buffer(options.max), *in = buffer(options.max);
    print_head(p);
    for (size = options.min; size <= options.max; size = next_size(size)) {
        int i, count = iterations_for(size), warmup = warmup_for(size);
        double began = 0, mine, least, mean, most;
        MPI_Barrier(MPI_COMM_WORLD);
        for (i = -warmup; i < count; i++) {
            if (i == 0)
                began = MPI_Wtime();
            ping_pong(out, in, (int)size);
        }
        mine = (MPI_Wtime() - began) / (2.0 * count) * 1e6;
        for (i = 0; options.check && i < CHECKED_MESSAGES; i++) {
            fill(out, size, (unsigned)(rank + i));
            ping_pong(out, in, (int)size);
            check(in, size, (unsigned)(partner() + i));
        }
        spread(mine, &least, &mean, &most);
        print_size_row(p, size, &mean);
    }
}

/* A window of messages from the lower half to the upper, both ways with `both`, then a short answer.
 * `stride` is the distance of the buffers of two messages: 0 for one buffer that stays in the cache. */
static void window_of_messages(char *out, char *in, int size, size_t stride, int both, MPI_Request *requests)
{
    int i, used = 0, window = options.window;
    char answer[4] = {0};
    if (both || !lower_half())
        for (i = 0; i < window; i++)
            MPI_Irecv(in + i * stride, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD, &requests[used++]);
    if (both || lower_half())
        for (i = 0; i < window; i++)
            MPI_Isend(out + i * stride, size, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD, &requests[used++]);
    MPI_Waitall(used, requests, MPI_STATUSES_IGNORE);
    if (lower_half())
        MPI_Recv(answer, sizeof answer, MPI_CHAR, partner(), TAG_ANSWER, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(answer, sizeof answer, MPI_CHAR, partner(), TAG_ANSWER, MPI_COMM_WORLD);
}

/* Sends windows with a different pattern in every message, and checks each. */
static void check_windows(size_t size, int both, MPI_Request *requests)
{
    int i, window = options.window;
    char *out, *in;
    /* Few messages when they are large: each needs a buffer of its own. */
    while (options.window > 1 && (size_t)options.window * size > ((size_t)64 << 20))
        options.window /= 2;
    out = malloc(size * options.window + 1);
    in = malloc(size * options.window + 1);
    if (!out || !in)
        give_up("no memory for %d buffers of %zu bytes: choose a smaller -m", options.window, size);
    memset(in, 0xEE, size * options.window);
    for (i = 0; i < options.window; i++)
        fill(out + i * size, size, (unsigned)(rank + 3 * i));
    window_of_messages(out, in, (int)size, size, both, requests);
    if (both || !lower_half())
        for (i = 0; i < options.window; i++)
            check(in + i * size, size, (unsigned)(partner() + 3 * i));
    free(out);
    free(in);
    options.window = window;
}

/* The table of bandwidths in MB/s (10^6 bytes) summed over all pairs, and of messages a second. */
static void run_bandwidth(const struct program *p, int both)
{
    size_t size;
    char *out = buffer(options.max), *in = buffer(options.max);
    MPI_Request *requests = malloc(sizeof *requests * 2 * options.window);
    if (!requests)
        give_up("no memory for %d requests: choose a smaller -W", 2 * options.window);
    print_head(p);
    for (size = options.min; size <= options.max; size = next_size(size)) {
        int i, count = iterations_for(size) / 10 + 1, warmup = warmup_for(size) / 10;
        double began = 0, mine, least, mean, most, values[MAX_COLUMNS];
        MPI_Barrier(MPI_COMM_WORLD);
        for (i = -warmup; i < count; i++) {
            if (i == 0)
                began = MPI_Wtime();
            /* All messages of a window use one buffer, as in the benchmark everybody knows. */
            window_of_messages(out, in, (int)size, 0, both, requests);
        }
        mine = MPI_Wtime() - began;
        if (options.check)
            check_windows(size, both, requests);
        spread(mine, &least, &mean, &most);
        values[1] = (double)count * options.window * (ranks / 2) * (both ? 2 : 1) / mean;
        values[0] = values[1] * (double)size / 1e6;
        print_size_row(p, size, values);
    }
    free(requests);
}

static inline void mention_pairs(void)
{
    (void)run_latency, (void)run_bandwidth, (void)mention_pairs;
}

#endif
