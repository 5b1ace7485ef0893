/* MPI_Dist_graph_neighbors with room for fewer edges than there are gives the first part of each list. (MPICH 5.0.2 refuses.)
 *
 * Covers: 8.5.5
 * Ranks: 4
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int list[] = {3, 1, 2, 0}, weights[] = {7, 7, 7, 7}, sources[4], destinations[4], into[4], outof[4];
    MPI_Comm graph;
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 4, list, weights, 4, list, weights, MPI_INFO_NULL, 0, &graph));
    for (int in = 0; in <= 4; in++)
        for (int out = 0; out <= 4; out++) {
            for (int i = 0; i < 4; i++) sources[i] = destinations[i] = into[i] = outof[i] = -3;
            CHECK_OK(MPI_Dist_graph_neighbors(graph, in, sources, into, out, destinations, outof));
            for (int i = 0; i < 4; i++) {
                CHECK_INT(sources[i], i < in ? list[i] : -3);
                CHECK_INT(into[i], i < in ? 7 : -3);
                CHECK_INT(destinations[i], i < out ? list[i] : -3);
                CHECK_INT(outof[i], i < out ? 7 : -3);
            }
        }
    CHECK_OK(MPI_Comm_free(&graph));
    return check_end();
}
