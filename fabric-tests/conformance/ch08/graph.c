/* MPI_Graph_create and its inquiries: examples 8.2 and 8.5 with multiple edges in their order, self loops, a nonsymmetric adjacency
 * matrix, no edges at all, fewer nodes than processes, no nodes; the arguments are copied; MPI_Graph_map. (Open MPI 5.0.11 maps processes
 * beyond the graph, too.)
 *
 * Covers: 8.5.3, 8.5.5, 8.5.8
 * Ranks: 1 2 4 7
 */
#include "check.h"

static void check_graph(int nnodes, const int *given_index, const int *given_edges)
{
    if (nnodes > check_size) return;
    MPI_Comm graph;
    int index[16], edges[64], status, size, rank, nodes = -1, count = -1, total = nnodes ? given_index[nnodes - 1] : 0;
    memcpy(index, given_index, sizeof(int) * (size_t)nnodes);
    memcpy(edges, given_edges, sizeof(int) * (size_t)total);
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, nnodes, index, edges, 0, &graph));
    memset(index, 0x55, sizeof index);
    memset(edges, 0x55, sizeof edges);
    CHECK((graph != MPI_COMM_NULL) == (check_rank < nnodes));
    if (graph == MPI_COMM_NULL) return;
    CHECK_OK(MPI_Topo_test(graph, &status));
    CHECK_INT(status, MPI_GRAPH);
    CHECK_OK(MPI_Comm_size(graph, &size));
    CHECK_INT(size, nnodes);
    CHECK_OK(MPI_Comm_rank(graph, &rank));
    CHECK_INT(rank, check_rank);
    CHECK_OK(MPI_Graphdims_get(graph, &nodes, &count));
    CHECK_INT(nodes, nnodes);
    CHECK_INT(count, total);
    CHECK_OK(MPI_Graph_get(graph, nnodes, total, index, edges));
    for (int i = 0; i < nnodes; i++) CHECK_INT(index[i], given_index[i]);
    for (int i = 0; i < total; i++) CHECK_INT(edges[i], given_edges[i]);
    for (int node = 0; node < nnodes; node++) {
        int begin = node ? given_index[node - 1] : 0, degree = -1, neighbors[64];
        CHECK_OK(MPI_Graph_neighbors_count(graph, node, &degree));
        CHECK_INT(degree, given_index[node] - begin);
        CHECK_OK(MPI_Graph_neighbors(graph, node, degree, neighbors));
        for (int i = 0; i < degree; i++) CHECK_INT(neighbors[i], given_edges[begin + i]);
    }
    CHECK_OK(MPI_Barrier(graph));
    CHECK_OK(MPI_Comm_free(&graph));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    check_graph(4, (int[]){2, 3, 4, 6}, (int[]){1, 3, 0, 3, 0, 2});
    check_graph(4, (int[]){3, 5, 6, 9}, (int[]){1, 1, 3, 0, 0, 3, 0, 2, 2});
    check_graph(1, (int[]){2}, (int[]){0, 0});
    check_graph(1, (int[]){0}, (int[]){0});
    check_graph(2, (int[]){0, 3}, (int[]){1, 0, 1});
    check_graph(3, (int[]){1, 1, 1}, (int[]){2});
    check_graph(0, (int[]){0}, (int[]){0});

    int newrank = -1, ends[2] = {1, 2}, sum = 0, here;
    if (check_size >= 2) {
        CHECK_OK(MPI_Graph_map(MPI_COMM_WORLD, 2, ends, (int[]){1, 0}, &newrank));
        here = newrank != MPI_UNDEFINED;
        CHECK(!here || (newrank >= 0 && newrank < 2));
        CHECK_OK(MPI_Allreduce(&here, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_INT(sum, 2);
    }
    return check_end();
}
