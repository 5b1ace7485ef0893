/* MPI_Dist_graph_create with edges between anybody specified by anybody, the same edge by several, many times in turn: every process
 * gets exactly its edges with their weights, and the two ends of an edge agree.
 *
 * Covers: 8.5.4, 8.5.5
 * Ranks: 1 2 3 5 8 16
 * Timeout: 120
 */
#include "check.h"

enum { MOST = 40, ROUNDS = 25 };

static uint64_t state;

static int next(int below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(state % (uint64_t)below);
}

/* What rank `who` specifies in a round; the same at every process that asks. */
static int specification(int round, int who, int *sources, int *degrees, int *destinations, int *weights)
{
    state = 0x9e3779b97f4a7c15u * (uint64_t)(1 + round * 97 + who);
    for (int i = 0; i < 8; i++) next(2);
    int n = next(5), edges = 0;
    for (int i = 0; i < n; i++) {
        sources[i] = next(check_size);
        degrees[i] = next(8);
        for (int j = 0; j < degrees[i]; j++, edges++) {
            destinations[edges] = next(check_size);
            weights[edges] = next(1000000);
        }
    }
    return n;
}

struct edge { int peer, weight; };

static int by_peer(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    return x->peer != y->peer ? x->peer - y->peer : x->weight - y->weight;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int sources[8], degrees[8], destinations[MOST], weights[MOST];
    int most = MOST * check_size;
    struct edge *in = check_alloc(sizeof *in * (size_t)most), *out = check_alloc(sizeof *out * (size_t)most);
    struct edge *got = check_alloc(sizeof *got * (size_t)most);
    int *peers = check_alloc(sizeof(int) * (size_t)most * 4), *pw = peers + most, *peers2 = pw + most, *pw2 = peers2 + most;
    for (int round = 0; round < ROUNDS; round++) {
        int weighted = round % 3 != 0, reorder = round % 5 == 4, n_in = 0, n_out = 0, indegree, outdegree, has, me;
        MPI_Comm graph;
        int n = specification(round, check_rank, sources, degrees, destinations, weights);
        CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, destinations,
                                       weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &graph));
        CHECK_OK(MPI_Comm_rank(graph, &me));
        if (!reorder) CHECK_INT(me, check_rank);
        for (int who = 0; who < check_size; who++) {
            int m = specification(round, who, sources, degrees, destinations, weights);
            for (int i = 0, e = 0; i < m; i++)
                for (int j = 0; j < degrees[i]; j++, e++) {
                    if (destinations[e] == me) in[n_in++] = (struct edge){sources[i], weighted ? weights[e] : 0};
                    if (sources[i] == me) out[n_out++] = (struct edge){destinations[e], weighted ? weights[e] : 0};
                }
        }
        CHECK_OK(MPI_Dist_graph_neighbors_count(graph, &indegree, &outdegree, &has));
        CHECK_INT(indegree, n_in);
        CHECK_INT(outdegree, n_out);
        CHECK_INT(has != 0, weighted);
        memset(pw, 0, sizeof(int) * (size_t)most);
        memset(pw2, 0, sizeof(int) * (size_t)most);
        CHECK_OK(MPI_Dist_graph_neighbors(graph, indegree, peers, pw, outdegree, peers2, pw2));
        qsort(in, (size_t)n_in, sizeof *in, by_peer);
        qsort(out, (size_t)n_out, sizeof *out, by_peer);
        for (int i = 0; i < indegree; i++) got[i] = (struct edge){peers[i], pw[i]};
        qsort(got, (size_t)indegree, sizeof *got, by_peer);
        for (int i = 0; i < indegree && i < n_in; i++) {
            CHECK_INT(got[i].peer, in[i].peer);
            CHECK_INT(got[i].weight, in[i].weight);
        }
        for (int i = 0; i < outdegree; i++) got[i] = (struct edge){peers2[i], pw2[i]};
        qsort(got, (size_t)outdegree, sizeof *got, by_peer);
        for (int i = 0; i < outdegree && i < n_out; i++) {
            CHECK_INT(got[i].peer, out[i].peer);
            CHECK_INT(got[i].weight, out[i].weight);
        }
        CHECK_OK(MPI_Comm_free(&graph));
    }
    free(in);
    free(out);
    free(got);
    free(peers);
    return check_end();
}
