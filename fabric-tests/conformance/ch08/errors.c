/* What chapter 8 calls erroneous is an error, and the errors about a communicator with the wrong topology or none have the class
 * MPI_ERR_TOPOLOGY; the communicator stays usable. (Open MPI 5.0.11 lets several pass.) A failing collective constructor fails at every process, because its
 * arguments are the same everywhere.
 *
 * Covers: 8.5.1, 8.5.3, 8.5.4, 8.5.5, 8.5.6
 * Ranks: 2 4
 */
#include "check.h"

#define CHECK_FAILS(call)                                              \
    do {                                                               \
        if ((call) == MPI_SUCCESS) CHECK_FAIL("%s: must fail", #call); \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, a = 0, b = 0, c = 0, two[4] = {0, 0, 0, 0}, index[4], edges[4];
    int right = (check_rank + 1) % n, left = (check_rank + n - 1) % n;
    for (int i = 0; i < n; i++) {
        index[i] = i + 1;
        edges[i] = (i + 1) % n;
    }
    MPI_Comm cart, graph, dist, none = MPI_COMM_WORLD, made;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){n, 1}, (int[]){0, 1}, 0, &cart));
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &graph));
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED,
                                            MPI_INFO_NULL, 0, &dist));
    MPI_Comm not_cart[] = {none, graph, dist}, not_graph[] = {none, cart, dist}, not_dist[] = {none, cart, graph};
    for (int i = 0; i < 3; i++) {
        CHECK_CLASS(MPI_Cartdim_get(not_cart[i], &a), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Cart_rank(not_cart[i], two, &a), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Cart_coords(not_cart[i], 0, 4, two), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Cart_shift(not_cart[i], 0, 1, &a, &b), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Cart_sub(not_cart[i], two, &made), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Graphdims_get(not_graph[i], &a, &b), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Graph_get(not_graph[i], 4, 4, two, two), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Graph_neighbors_count(not_graph[i], 0, &a), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Graph_neighbors(not_graph[i], 0, 4, two), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Dist_graph_neighbors_count(not_dist[i], &a, &b, &c), MPI_ERR_TOPOLOGY);
        CHECK_CLASS(MPI_Dist_graph_neighbors(not_dist[i], 4, two, two, 4, two, two), MPI_ERR_TOPOLOGY);
    }
    /* Dimension 0 is not periodic, dimension 1 is. */
    CHECK_FAILS(MPI_Cart_rank(cart, (int[]){-1, 0}, &a));
    CHECK_FAILS(MPI_Cart_rank(cart, (int[]){n, 0}, &a));
    CHECK_OK(MPI_Cart_rank(cart, (int[]){0, 5}, &a));
    CHECK_FAILS(MPI_Cart_shift(cart, -1, 1, &a, &b));
    CHECK_FAILS(MPI_Cart_shift(cart, 2, 1, &a, &b));
    CHECK_CLASS(MPI_Cart_coords(cart, n, 2, two), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Cart_coords(cart, -1, 2, two), MPI_ERR_RANK);
    CHECK_FAILS(MPI_Graph_neighbors_count(graph, n, &a));
    CHECK_FAILS(MPI_Graph_neighbors(graph, -1, 4, two));

    CHECK_FAILS(MPI_Cart_create(MPI_COMM_WORLD, 2, (int[]){n, 2}, two, 0, &made));
    CHECK_FAILS(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){n + 1}, two, 0, &made));
    CHECK_FAILS(MPI_Cart_create(MPI_COMM_WORLD, -1, two, two, 0, &made));
    CHECK_FAILS(MPI_Graph_create(MPI_COMM_WORLD, n + 1, (int[]){0, 0, 0, 0, 0}, edges, 0, &made));
    CHECK_CLASS(MPI_Topo_test(MPI_COMM_NULL, &a), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Cart_create(MPI_COMM_NULL, 1, &n, two, 0, &made), MPI_ERR_COMM);

    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Comm_free(&cart));
    CHECK_OK(MPI_Comm_free(&graph));
    CHECK_OK(MPI_Comm_free(&dist));
    return check_end();
}
