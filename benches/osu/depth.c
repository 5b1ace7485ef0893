/* What a message costs when the queues are deep. */
#include "common.h"

static const struct program program = {
    .name = "depth",
    .purpose = "latency behind deep queues",
    .method = "Ping-pong of 8 bytes while each rank has older receives posted that match something else, or older messages\n"
              "that nobody receives; the figure is half a round trip, the ratio is to a depth of 1. Each depth is measured\n"
              "in eleven batches, of which the fastest counts.",
    .columns = {"Posted (us)", "Ratio", "Unexpected (us)"},
    .least_ranks = 2,
};

enum { PING = 7, OLD = 1000, LAST = 999, DEEPEST = 10000, BATCHES = 11 };

static MPI_Request old[DEEPEST];
static char nothing[DEEPEST];

static double ping_pong(int peer)
{
    double best = 1e9, began;
    char data[8] = {0};
    int batch, i, rounds = options.iterations ? options.iterations : 2000;
    for (batch = 0; batch < BATCHES; batch++) {
        MPI_Barrier(MPI_COMM_WORLD);
        began = MPI_Wtime();
        for (i = 0; i < rounds; i++) {
            MPI_Request request;
            MPI_Irecv(data, 8, MPI_CHAR, peer, PING, MPI_COMM_WORLD, &request);
            if (rank == 0)
                MPI_Send(data, 8, MPI_CHAR, peer, PING, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            if (rank == 1)
                MPI_Send(data, 8, MPI_CHAR, peer, PING, MPI_COMM_WORLD);
        }
        began = (MPI_Wtime() - began) / rounds / 2 * 1e6;
        if (began < best)
            best = began;
    }
    return best;
}

static double with_posted(int depth, int peer)
{
    double took;
    int i;
    for (i = 0; i < depth; i++)
        MPI_Irecv(&nothing[i], 1, MPI_CHAR, peer, OLD + i, MPI_COMM_WORLD, &old[i]);
    took = ping_pong(peer);
    for (i = 0; i < depth; i++)
        MPI_Cancel(&old[i]);
    MPI_Waitall(depth, old, MPI_STATUSES_IGNORE);
    return took;
}

static double with_unexpected(int depth, int peer)
{
    double took;
    MPI_Request last;
    int i;
    for (i = 0; i < depth; i++)
        MPI_Isend(&nothing[i], 1, MPI_CHAR, peer, OLD + i, MPI_COMM_WORLD, &old[i]);
    /* Behind all of them: once it is here, they are. */
    MPI_Isend(nothing, 1, MPI_CHAR, peer, LAST, MPI_COMM_WORLD, &last);
    MPI_Recv(nothing, 1, MPI_CHAR, peer, LAST, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&last, MPI_STATUS_IGNORE);
    took = ping_pong(peer);
    /* In the worst order. */
    for (i = depth - 1; i >= 0; i--)
        MPI_Recv(&nothing[i], 1, MPI_CHAR, peer, OLD + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Waitall(depth, old, MPI_STATUSES_IGNORE);
    return took;
}

int main(int argc, char **argv)
{
    int depth, peer;
    double values[MAX_COLUMNS], first[2] = {0, 0};
    char label[64];
    start(&argc, &argv, &program);
    peer = 1 - rank;
    print_head(&program);
    if (ranks != 2)
        give_up("depth: needs 2 ranks");
    ping_pong(peer);
    for (depth = 1; depth <= DEEPEST; depth *= 10) {
        double posted = with_posted(depth, peer), unexpected = with_unexpected(depth, peer);
        if (depth == 1) {
            first[0] = posted;
            first[1] = unexpected;
        }
        values[0] = posted;
        values[1] = posted / first[0];
        values[2] = unexpected;
        snprintf(label, sizeof label, "%d (unexpected: ratio %.2f)", depth, unexpected / first[1]);
        print_row(&program, label, values);
    }
    MPI_Finalize();
    return 0;
}
