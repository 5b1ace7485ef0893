/* Example 8.4: a torus with diagonals as distributed graph, reordering allowed: every process has eight neighbors each way, the four
 * along the dimensions with weight 2 and the diagonal ones with weight 1, and messages along the edges arrive.
 *
 * Covers: 8.5.4, 8.5.5
 * Ranks: 9 12 16
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int dims[2] = {0, 0};
    CHECK_OK(MPI_Dims_create(check_size, 2, dims));
    int P = dims[0], Q = dims[1], rank = check_rank, sources[1], degrees[1], destinations[8], weights[8];
    MPI_Comm torus;
    int y = rank / P, x = rank % P;
    destinations[0] = P * y + (x + 1) % P, weights[0] = 2;
    destinations[1] = P * y + (P + x - 1) % P, weights[1] = 2;
    destinations[2] = P * ((y + 1) % Q) + x, weights[2] = 2;
    destinations[3] = P * ((Q + y - 1) % Q) + x, weights[3] = 2;
    destinations[4] = P * ((y + 1) % Q) + (x + 1) % P, weights[4] = 1;
    destinations[5] = P * ((Q + y - 1) % Q) + (x + 1) % P, weights[5] = 1;
    destinations[6] = P * ((y + 1) % Q) + (P + x - 1) % P, weights[6] = 1;
    destinations[7] = P * ((Q + y - 1) % Q) + (P + x - 1) % P, weights[7] = 1;
    sources[0] = rank;
    degrees[0] = 8;
    CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, sources, degrees, destinations, weights, MPI_INFO_NULL, 1, &torus));
    int in, out, weighted, me, from[8], into[8], to[8], outof[8], heard[8];
    CHECK_OK(MPI_Comm_rank(torus, &me));
    CHECK_OK(MPI_Dist_graph_neighbors_count(torus, &in, &out, &weighted));
    CHECK_INT(in, 8);
    CHECK_INT(out, 8);
    CHECK(weighted);
    CHECK_OK(MPI_Dist_graph_neighbors(torus, 8, from, into, 8, to, outof));
    MPI_Request requests[16];
    for (int i = 0; i < 8; i++) {
        int dx = abs(to[i] % P - me % P), dy = abs(to[i] / P - me / P);
        CHECK(dx <= 1 || dx == P - 1);
        CHECK(dy <= 1 || dy == Q - 1);
        CHECK_INT(outof[i], dx && dy ? 1 : 2);
        /* With a dimension of 2 both diagonals are one process: tell the messages apart by nothing but their source. */
        CHECK_OK(MPI_Irecv(&heard[i], 1, MPI_INT, from[i], 0, torus, &requests[i]));
    }
    for (int i = 0; i < 8; i++) CHECK_OK(MPI_Isend(&me, 1, MPI_INT, to[i], 0, torus, &requests[8 + i]));
    CHECK_OK(MPI_Waitall(16, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 8; i++) CHECK_INT(heard[i], from[i]);
    CHECK_OK(MPI_Comm_free(&torus));
    return check_end();
}
