/* Errors of chapter 8: class, procedure, argument, value and rule in the text.
 *
 * Covers: 8.5, 9.4
 * Ranks: 2
 */
#include "check.h"
#include "told.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, a, b, two[2] = {0, 0}, dims[2], right = (check_rank + 1) % n;
    MPI_Comm cart, graph, made;
    MPI_Comm w = MPI_COMM_WORLD;
    CHECK_OK(MPI_Cart_create(w, 2, (int[]){n, 1}, (int[]){0, 1}, 0, &cart));
    CHECK_OK(MPI_Comm_set_name(cart, "the grid"));
    CHECK_OK(MPI_Graph_create(w, n, (int[]){1, 2}, (int[]){1, 0}, 0, &graph));
    CHECK_OK(MPI_Comm_set_name(graph, "the graph"));

    TOLD(MPI_Cartdim_get(w, &a), MPI_ERR_TOPOLOGY, "MPI_Cartdim_get", "MPI_COMM_WORLD", "has none", "Cartesian");
    TOLD(MPI_Cart_shift(graph, 0, 1, &a, &b), MPI_ERR_TOPOLOGY, "MPI_Cart_shift", "the graph", "has a graph topology", "Cartesian");
    TOLD(MPI_Graphdims_get(cart, &a, &b), MPI_ERR_TOPOLOGY, "the grid", "has a Cartesian topology", "needs a graph");

    TOLD(MPI_Cart_create(w, 2, (int[]){2, 2}, two, 0, &made), MPI_ERR_DIMS, "MPI_Cart_create", "dims = [2, 2]", "4 processes", "has 2");
    TOLD(MPI_Cart_create(w, 2, (int[]){1, -1}, two, 0, &made), MPI_ERR_DIMS, "dims[1] is -1");
    TOLD(MPI_Cart_create(w, 2, (int[]){0, 1}, two, 0, &made), MPI_ERR_DIMS, "dims[0] is 0");
    TOLD(MPI_Cart_create(w, -1, two, two, 0, &made), MPI_ERR_DIMS, "ndims", "-1");
    TOLD(MPI_Cart_create(w, 2, NULL, two, 0, &made), MPI_ERR_ARG, "dims", "null");
    TOLD(MPI_Cart_create(w, 2, (int[]){70000, 70000}, two, 0, &made), MPI_ERR_DIMS, "more than 2147483647");
    TOLD(MPI_Cart_map(w, 2, (int[]){2, 2}, two, &a), MPI_ERR_DIMS, "MPI_Cart_map", "4 processes");
    TOLD(MPI_Cart_sub(cart, NULL, &made), MPI_ERR_ARG, "remain_dims", "null");
    TOLD(MPI_Cart_rank(cart, (int[]){n, 0}, &a), MPI_ERR_ARG, "MPI_Cart_rank", "coords[0] is 2", "not periodic", "0 to 1");
    TOLD(MPI_Cart_rank(cart, NULL, &a), MPI_ERR_ARG, "coords", "null");
    TOLD(MPI_Cart_coords(cart, n, 2, two), MPI_ERR_RANK, "rank is 2", "0 to 1");
    TOLD(MPI_Cart_coords(cart, 0, 1, two), MPI_ERR_DIMS, "maxdims is 1", "2 entries");
    TOLD(MPI_Cart_get(cart, 1, two, two, two), MPI_ERR_DIMS, "maxdims is 1");
    TOLD(MPI_Cart_shift(cart, 2, 1, &a, &b), MPI_ERR_DIMS, "direction is 2", "0 to 1");

    dims[0] = 5, dims[1] = 0;
    TOLD(MPI_Dims_create(12, 2, dims), MPI_ERR_DIMS, "MPI_Dims_create", "multiply to 5", "divide nnodes = 12");
    dims[0] = -2;
    TOLD(MPI_Dims_create(12, 2, dims), MPI_ERR_DIMS, "dims[0] is -2");
    dims[0] = 2, dims[1] = 2;
    TOLD(MPI_Dims_create(12, 2, dims), MPI_ERR_DIMS, "multiply to 4", "equal nnodes = 12");
    TOLD(MPI_Dims_create(0, 2, dims), MPI_ERR_ARG, "nnodes is 0");
    TOLD(MPI_Dims_create(4, -2, dims), MPI_ERR_DIMS, "ndims", "-2");

    TOLD(MPI_Graph_create(w, n + 1, (int[]){0, 0, 0}, two, 0, &made), MPI_ERR_ARG, "MPI_Graph_create", "nnodes is 3", "has 2");
    TOLD(MPI_Graph_create(w, 2, (int[]){2, 1}, two, 0, &made), MPI_ERR_ARG, "index[1] is 1");
    TOLD(MPI_Graph_create(w, 2, (int[]){1, 2}, (int[]){1, 2}, 0, &made), MPI_ERR_ARG, "edges[1] is 2", "2 nodes");
    TOLD(MPI_Graph_create(w, -1, two, two, 0, &made), MPI_ERR_ARG, "nnodes", "-1");
    TOLD(MPI_Graph_neighbors(graph, 0, 0, two), MPI_ERR_ARG, "maxneighbors is 0", "1 entries");
    TOLD(MPI_Graph_neighbors(graph, 7, 2, two), MPI_ERR_RANK, "rank is 7");
    TOLD(MPI_Graph_get(graph, 1, 2, two, two), MPI_ERR_ARG, "maxindex is 1");
    TOLD(MPI_Graph_get(graph, 2, 1, two, two), MPI_ERR_ARG, "maxedges is 1");

    TOLD(MPI_Dist_graph_create(w, 1, &n, &(int){1}, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made), MPI_ERR_RANK,
         "MPI_Dist_graph_create", "sources[0] is 2", "0 to 1");
    TOLD(MPI_Dist_graph_create(w, 1, &right, &(int){1}, &(int){-2}, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made), MPI_ERR_RANK,
         "destinations[0] is -2");
    TOLD(MPI_Dist_graph_create(w, 1, &right, &(int){-1}, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG, "degrees[0] is -1");
    TOLD(MPI_Dist_graph_create(w, 1, &right, &(int){1}, &right, &(int){-5}, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG, "weights[0] is -5");
    TOLD(MPI_Dist_graph_create(w, 1, &right, &(int){1}, &right, MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG,
         "weights is MPI_WEIGHTS_EMPTY", "1 edges");
    TOLD(MPI_Dist_graph_create(w, -1, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG, "n ", "-1");
    TOLD(MPI_Dist_graph_create_adjacent(w, 1, &right, MPI_UNWEIGHTED, 1, &right, &right, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG,
         "sourceweights", "destweights", "MPI_UNWEIGHTED");
    /* Found by all together: nobody is left waiting. */
    TOLD(MPI_Dist_graph_create(w, 1, &right, &(int){1}, &right, check_rank ? MPI_UNWEIGHTED : &n, MPI_INFO_NULL, 0, &made), MPI_ERR_ARG,
         "weights is MPI_UNWEIGHTED at some processes");
    TOLD(MPI_Dist_graph_create(w, 1, &right, &(int){1}, &right, &n, MPI_INFO_NULL, check_rank, &made), MPI_ERR_ARG,
         "reorder is true at some processes");
    CHECK_OK(MPI_Barrier(w));
    CHECK_OK(MPI_Comm_free(&cart));
    CHECK_OK(MPI_Comm_free(&graph));
    return check_end();
}
