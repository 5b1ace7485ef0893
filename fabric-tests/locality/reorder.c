/* Prints how much of the traffic of a topology crosses between packages before and after reordering: a grid or torus of 4 x n/4 as Cartesian,
 * graph or distributed graph topology; and whether the map procedures agree with the constructors.
 *
 * Arguments: cart|graph|dist|adjacent, and 0 or 1 for the torus.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int n, dims[2], periods[2], place[64];

/* The neighbors of a node in row-major numbering. */
static int neighbors(int node, int *to)
{
    int count = 0, c[2] = {node / dims[1], node % dims[1]};
    for (int d = 0; d < 2; d++)
        for (int step = -1; step <= 1; step += 2) {
            int at[2] = {c[0], c[1]};
            at[d] += step;
            if (periods[d]) at[d] = (at[d] + dims[d]) % dims[d];
            if (at[d] >= 0 && at[d] < dims[d]) to[count++] = at[0] * dims[1] + at[1];
        }
    return count;
}

/* Messages between packages when node v is the process whose package is place[v]. */
static int across(void)
{
    int total = 0, to[4];
    for (int v = 0; v < n; v++)
        for (int i = neighbors(v, to); i-- > 0;) total += place[v] != place[to[i]];
    return total;
}

int main(int argc, char **argv)
{
    int rank, package, newrank = -1, mapped = -1;
    MPI_Comm part, comm = MPI_COMM_NULL;
    MPI_Info info;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    const char *form = argc > 1 ? argv[1] : "cart";
    dims[0] = 4, dims[1] = n / 4;
    periods[0] = periods[1] = argc > 2 && atoi(argv[2]);

    MPI_Info_create(&info);
    MPI_Info_set(info, "mpi_hw_resource_type", "Package");
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &part);
    MPI_Info_free(&info);
    package = -1;
    if (part != MPI_COMM_NULL) {
        MPI_Allreduce(&rank, &package, 1, MPI_INT, MPI_MIN, part);
        MPI_Comm_free(&part);
    }
    MPI_Allgather(&package, 1, MPI_INT, place, 1, MPI_INT, MPI_COMM_WORLD);
    int before = across(), index[64], edges[256], total = 0, to[4], degree = neighbors(rank, to);
    for (int v = 0; v < n; v++) index[v] = total += neighbors(v, edges + total);
    if (strcmp(form, "cart") == 0) {
        MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 1, &comm);
        MPI_Cart_map(MPI_COMM_WORLD, 2, dims, periods, &mapped);
    } else if (strcmp(form, "graph") == 0) {
        MPI_Graph_create(MPI_COMM_WORLD, n, index, edges, 1, &comm);
        MPI_Graph_map(MPI_COMM_WORLD, n, index, edges, &mapped);
    } else if (strcmp(form, "dist") == 0) {
        MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 1, &comm);
    } else {
        int weights[4] = {3, 3, 3, 3};
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, to, weights, degree, to, weights, MPI_INFO_NULL, 1, &comm);
    }
    MPI_Comm_rank(comm, &newrank);
    MPI_Allgather(&package, 1, MPI_INT, place, 1, MPI_INT, comm);
    int agree = mapped == -1 || mapped == newrank, all_agree;
    MPI_Allreduce(&agree, &all_agree, 1, MPI_INT, MPI_LAND, comm);
    if (strcmp(form, "dist") == 0 || strcmp(form, "adjacent") == 0) {
        /* Whatever the rank, the neighbors are those of the node of that number, and messages between them arrive. */
        int got[4], back[4], in, out, weighted, right = 1;
        MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
        MPI_Dist_graph_neighbors(comm, 4, back, MPI_UNWEIGHTED, 4, got, MPI_UNWEIGHTED);
        degree = neighbors(newrank, to);
        right = in == degree && out == degree;
        for (int i = 0; right && i < degree; i++) {
            int found = 0;
            for (int j = 0; j < degree; j++) found |= to[i] == got[j];
            right = found;
        }
        MPI_Allreduce(&right, &agree, 1, MPI_INT, MPI_LAND, comm);
        all_agree &= agree;
    }
    if (rank == 0) printf("messages between packages: %d before, %d after; %s\n", before, across(), all_agree ? "consistent" : "INCONSISTENT");
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}
