/* Neighborhood collectives on graph and distributed graph topologies: symmetric graphs with multiple edges; directed edges, several between
 * the same two processes in their order, to oneself, none at all; a full graph with edges to oneself does what MPI_Alltoall does.
 *
 * Covers: 8.6, 8.6.1, 8.6.2, 8.7.1, 8.7.2
 * Ranks: 1 2 4 5 7
 */
#include "neighborhood.h"

/* How many edges with the same neighbor came before each. */
static void name(int count, const int *peers, int *names)
{
    for (int i = 0; i < count; i++) {
        names[i] = 0;
        for (int j = 0; j < i; j++) names[i] += peers[j] == peers[i];
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, names_in[MOST_EDGES], names_out[MOST_EDGES];
    MPI_Comm comm;

    /* A ring, each edge twice, and a loop: symmetric. */
    int index[8], edges[40], degree = 5, mine[5];
    for (int v = 0; v < n; v++) {
        int l = (v + n - 1) % n, r = (v + 1) % n, list[5] = {r, l, v, l, r};
        memcpy(edges + 5 * v, list, sizeof list);
        if (v == me) memcpy(mine, list, sizeof list);
        index[v] = 5 * (v + 1);
    }
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 0, &comm));
    name(degree, mine, names_in);
    for (int form = BLOCKING; form <= PERSISTENT; form++)
        check_neighborhood(comm, degree, mine, names_in, degree, mine, names_in, form);
    CHECK_OK(MPI_Comm_free(&comm));

    /* Directed: rank v sends (v + d) % 3 messages to v + d, and has them listed in different orders at both ends. */
    int sources[MOST_EDGES], destinations[MOST_EDGES], in = 0, out = 0;
    for (int d = 0; d < n; d++)
        for (int k = 0; k < (me + d) % 3; k++) destinations[out++] = (me + d) % n;
    for (int s = n - 1; s >= 0; s--)
        for (int k = 0; k < (s + (me - s + n) % n) % 3; k++) sources[in++] = s;
    name(in, sources, names_in);
    name(out, destinations, names_out);
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, MPI_UNWEIGHTED, out, destinations, MPI_UNWEIGHTED, MPI_INFO_NULL,
                                            0, &comm));
    for (int form = BLOCKING; form <= PERSISTENT; form++)
        check_neighborhood(comm, in, sources, names_in, out, destinations, names_out, form);
    CHECK_OK(MPI_Comm_free(&comm));

    /* Everybody to everybody: the dense operation. */
    int all[8], sent[8], here[8], there[8];
    for (int i = 0; i < n; i++) all[i] = i, sent[i] = number(me, i, 1);
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, n, all, MPI_UNWEIGHTED, n, all, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    CHECK_OK(MPI_Neighbor_alltoall(sent, 1, MPI_INT, here, 1, MPI_INT, comm));
    CHECK_OK(MPI_Alltoall(sent, 1, MPI_INT, there, 1, MPI_INT, comm));
    for (int i = 0; i < n; i++) CHECK_INT(here[i], there[i]);
    CHECK_OK(MPI_Comm_free(&comm));

    /* Nobody: still collective. */
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    check_neighborhood(comm, 0, NULL, NULL, 0, NULL, NULL, BLOCKING);
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
