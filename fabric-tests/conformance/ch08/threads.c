/* Several threads, each with a communicator of its own, make topologies of all kinds and communicate on them at the same time.
 *
 * Covers: 8.5, 8.6, 11.6
 * Ranks: 2 3
 * Flags: -pthread
 * Timeout: 120
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, ROUNDS = 15 };

static MPI_Comm comms[THREADS];

static void *work(void *argument)
{
    int mine = *(int *)argument, n = check_size, me = check_rank, right = (me + 1) % n, left = (me + n - 1) % n;
    for (int round = 0; round < ROUNDS; round++) {
        int value = 1000 * mine + 10 * round + me, around[2] = {-1, -1}, one = 1, source = -1, dest = -1;
        MPI_Comm cart, graph;
        CHECK_OK(MPI_Cart_create(comms[mine], 1, &n, &one, 1, &cart));
        CHECK_OK(MPI_Neighbor_allgather(&value, 1, MPI_INT, around, 1, MPI_INT, cart));
        CHECK_INT(around[0], value - me + left);
        CHECK_INT(around[1], value - me + right);
        CHECK_OK(MPI_Comm_free(&cart));
        /* Everybody specifies the edge of its left neighbor. */
        CHECK_OK(MPI_Dist_graph_create(comms[mine], 1, &left, &one, &me, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph));
        CHECK_OK(MPI_Dist_graph_neighbors(graph, 1, &source, MPI_UNWEIGHTED, 1, &dest, MPI_UNWEIGHTED));
        CHECK_INT(source, left);
        CHECK_INT(dest, right);
        CHECK_OK(MPI_Neighbor_alltoall(&value, 1, MPI_INT, around, 1, MPI_INT, graph));
        CHECK_INT(around[0], value - me + left);
        CHECK_OK(MPI_Comm_free(&graph));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, numbers[THREADS];
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, work, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
