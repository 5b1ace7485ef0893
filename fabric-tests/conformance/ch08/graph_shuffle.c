/* Example 8.6: a shuffle-exchange network as graph topology, and its three permutations by MPI_Sendrecv_replace.
 *
 * Covers: 8.5.5
 * Ranks: 2 4 8
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, bits = 0, index[8], edges[24];
    while (1 << bits < n) bits++;
    for (int node = 0; node < n; node++) {
        edges[3 * node] = node ^ 1;
        edges[3 * node + 1] = (node << 1 | node >> (bits - 1)) & (n - 1);
        edges[3 * node + 2] = (node >> 1 | node << (bits - 1)) & (n - 1);
        index[node] = 3 * (node + 1);
    }
    MPI_Comm net;
    int me, neighbors[3], value;
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 1, &net));
    CHECK_OK(MPI_Comm_rank(net, &me));
    CHECK_OK(MPI_Graph_neighbors(net, me, 3, neighbors));
    for (int i = 0; i < 3; i++) CHECK_INT(neighbors[i], edges[3 * me + i]);
    value = me;
    CHECK_OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, neighbors[0], 0, neighbors[0], 0, net, MPI_STATUS_IGNORE));
    CHECK_INT(value, neighbors[0]);
    value = me;
    CHECK_OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, neighbors[1], 0, neighbors[2], 0, net, MPI_STATUS_IGNORE));
    CHECK_INT(value, neighbors[2]);
    value = me;
    CHECK_OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, neighbors[2], 0, neighbors[1], 0, net, MPI_STATUS_IGNORE));
    CHECK_INT(value, neighbors[1]);
    CHECK_OK(MPI_Comm_free(&net));
    return check_end();
}
