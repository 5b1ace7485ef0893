/* Reordering allowed: the new communicator has as many processes as the topology has places, each with a rank of its own; the topology
 * is the one asked for, seen from the new ranks; messages along it arrive. The map procedures give ranks that make such a permutation
 * too, and MPI_UNDEFINED to those left out. (Open MPI 5.0.11 gives ranks to those left out.)
 *
 * Covers: 8.5.1, 8.5.3, 8.5.4, 8.5.8
 * Ranks: 1 2 4 6 8 13
 */
#include "check.h"

static void check_ring(MPI_Comm comm, int size, int source, int dest)
{
    int rank, heard = -1;
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    CHECK_INT(source, (rank + size - 1) % size);
    CHECK_INT(dest, (rank + 1) % size);
    CHECK_OK(MPI_Sendrecv(&rank, 1, MPI_INT, dest, 0, &heard, 1, MPI_INT, source, 0, comm, MPI_STATUS_IGNORE));
    CHECK_INT(heard, source);
    int seen[16] = {0}, all[16];
    seen[rank] = 1;
    CHECK_OK(MPI_Allreduce(seen, all, size, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < size; i++) CHECK_INT(all[i], 1);
}

/* The ranks that a map procedure gave are 0 to `wanted` - 1, each once. */
static void check_map(int newrank, int wanted)
{
    int seen[16] = {0}, all[16];
    if (newrank != MPI_UNDEFINED) {
        CHECK(newrank >= 0 && newrank < wanted);
        seen[newrank] = 1;
    }
    CHECK_OK(MPI_Allreduce(seen, all, 16, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < 16; i++) CHECK_INT(all[i], i < wanted);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, index[16], edges[16], newrank, source, dest, size;
    for (int members = n; members >= 1 && members >= n - 1; members--) {
        MPI_Comm comm;
        CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &members, &(int){1}, 1, &comm));
        if (comm != MPI_COMM_NULL) {
            CHECK_OK(MPI_Comm_size(comm, &size));
            CHECK_INT(size, members);
            CHECK_OK(MPI_Cart_shift(comm, 0, 1, &source, &dest));
            check_ring(comm, members, source, dest);
            CHECK_OK(MPI_Comm_free(&comm));
        }
        CHECK_OK(MPI_Cart_map(MPI_COMM_WORLD, 1, &members, &(int){1}, &newrank));
        check_map(newrank, members);

        for (int i = 0; i < members; i++) {
            index[i] = i + 1;
            edges[i] = (i + 1) % members;
        }
        CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, members, index, edges, 1, &comm));
        if (comm != MPI_COMM_NULL) {
            int rank;
            CHECK_OK(MPI_Comm_rank(comm, &rank));
            CHECK_OK(MPI_Graph_neighbors(comm, rank, 1, &dest));
            check_ring(comm, members, (rank + members - 1) % members, dest);
            CHECK_OK(MPI_Comm_free(&comm));
        }
        CHECK_OK(MPI_Graph_map(MPI_COMM_WORLD, members, index, edges, &newrank));
        check_map(newrank, members);
    }
    MPI_Comm comm;
    int left = (check_rank + n - 1) % n, right = (check_rank + 1) % n, weight = 3 + check_rank, before = 3 + left, w_in, w_out;
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, &before, 1, &right, &weight, MPI_INFO_NULL, 1, &comm));
    CHECK_OK(MPI_Dist_graph_neighbors(comm, 1, &source, &w_in, 1, &dest, &w_out));
    check_ring(comm, n, source, dest);
    CHECK_OK(MPI_Comm_rank(comm, &newrank));
    CHECK_INT(w_out, 3 + newrank);
    CHECK_INT(w_in, 3 + source);
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
