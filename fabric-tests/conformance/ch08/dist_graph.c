/* MPI_Dist_graph_create and MPI_Dist_graph_create_adjacent: the three specifications of example 8.3, weighted and not, with the
 * edges of one graph; order of the adjacent form; multiple edges and self loops; isolated processes;
 * MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY; arguments are copied; two inquiries agree.
 *
 * Covers: 8.5.4, 8.5.5
 * Ranks: 4
 */
#include "check.h"

static const int index_of[] = {0, 2, 3, 4, 6}, edge_to[] = {1, 3, 0, 3, 0, 2};

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* The neighbors are those of example 8.2, in some order, each with weight 10 * source + destination. */
static void check_example(MPI_Comm comm, int weighted)
{
    int in = -1, out = -1, has = -1, status, me, size;
    int sources[4], into[4] = {-5, -5, -5, -5}, destinations[4], outof[4] = {-5, -5, -5, -5}, again[4];
    CHECK_OK(MPI_Topo_test(comm, &status));
    CHECK_INT(status, MPI_DIST_GRAPH);
    CHECK_OK(MPI_Comm_size(comm, &size));
    CHECK_INT(size, 4);
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &has));
    int degree = index_of[me + 1] - index_of[me];
    CHECK_INT(in, degree); /* the matrix is symmetric */
    CHECK_INT(out, degree);
    CHECK_INT(has != 0, weighted);
    CHECK_OK(MPI_Dist_graph_neighbors(comm, in, sources, into, out, destinations, outof));
    for (int i = 0; i < degree; i++) {
        CHECK_INT(into[i], weighted ? 10 * sources[i] + me : -5);
        CHECK_INT(outof[i], weighted ? 10 * me + destinations[i] : -5);
    }
    CHECK_OK(MPI_Dist_graph_neighbors(comm, in, again, MPI_UNWEIGHTED, out, again, MPI_UNWEIGHTED));
    for (int i = 0; i < out; i++) CHECK_INT(again[i], destinations[i]);
    qsort(sources, (size_t)in, sizeof(int), ascending);
    qsort(destinations, (size_t)out, sizeof(int), ascending);
    for (int i = 0; i < degree; i++) {
        CHECK_INT(sources[i], edge_to[index_of[me] + i]);
        CHECK_INT(destinations[i], edge_to[index_of[me] + i]);
    }
    CHECK_OK(MPI_Barrier(comm));
}

static void check_forms(int weighted, int reorder)
{
    int me = check_rank, all[] = {0, 1, 2, 3}, degrees[4], weights[6], mine[2], theirs[2], destinations[6];
    int begin = index_of[me], degree = index_of[me + 1] - begin;
    MPI_Comm comm;
    for (int s = 0; s < 4; s++) {
        degrees[s] = index_of[s + 1] - index_of[s];
        for (int e = index_of[s]; e < index_of[s + 1]; e++) weights[e] = 10 * s + edge_to[e];
    }
    memcpy(destinations, edge_to, sizeof destinations);
    /* Each specifies what it sends. */
    CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &me, &degree, destinations + begin,
                                   weighted ? weights + begin : MPI_UNWEIGHTED, MPI_INFO_NULL, reorder, &comm));
    memset(destinations, 0x55, sizeof destinations);
    check_example(comm, weighted);
    CHECK_OK(MPI_Comm_free(&comm));
    /* One specifies everything. */
    for (int who = 0; who < 4; who++) {
        const int *empty = weighted ? MPI_WEIGHTS_EMPTY : MPI_UNWEIGHTED;
        memcpy(destinations, edge_to, sizeof destinations);
        CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, me == who ? 4 : 0, all, degrees, destinations,
                                       me == who && weighted ? weights : empty, MPI_INFO_NULL, reorder, &comm));
        check_example(comm, weighted);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    /* The adjacent form. */
    for (int i = 0; i < degree; i++) {
        mine[i] = 10 * me + edge_to[begin + i];
        theirs[i] = 10 * edge_to[begin + i] + me;
    }
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, edge_to + begin, weighted ? theirs : MPI_UNWEIGHTED,
                                            degree, edge_to + begin, weighted ? mine : MPI_UNWEIGHTED, MPI_INFO_NULL,
                                            reorder, &comm));
    check_example(comm, weighted);
    CHECK_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int weighted = 0; weighted < 2; weighted++)
        for (int reorder = 0; reorder < 2; reorder++) check_forms(weighted, reorder);

    /* The adjacent form keeps order and number; rank 3 is isolated and has no weights to give. */
    int me = check_rank, in, out, has, sources[8], destinations[8], into[8], outof[8];
    static const int list[3][4] = {{2, 0, 1, 2}, {2, 1, 1, 0}, {0, 2, 0, 1}}, w[3][4] = {{4, 0, 7, 5}, {6, 2, 2, 7}, {5, 9, 4, 6}};
    MPI_Comm comm;
    int degree = me < 3 ? 4 : 0;
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, me < 3 ? list[me] : NULL,
                                            me < 3 ? w[me] : MPI_WEIGHTS_EMPTY, degree, me < 3 ? list[me] : NULL,
                                            me < 3 ? w[me] : MPI_WEIGHTS_EMPTY, MPI_INFO_NULL, 0, &comm));
    CHECK_OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &has));
    CHECK_INT(in, degree);
    CHECK_INT(out, degree);
    CHECK_INT(has != 0, 1);
    CHECK_OK(MPI_Dist_graph_neighbors(comm, in, sources, into, out, destinations, outof));
    for (int i = 0; i < degree; i++) {
        CHECK_INT(sources[i], list[me][i]);
        CHECK_INT(destinations[i], list[me][i]);
        CHECK_INT(into[i], w[me][i]);
        CHECK_INT(outof[i], w[me][i]);
    }
    CHECK_OK(MPI_Comm_free(&comm));

    /* No edges at all. */
    CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    CHECK_OK(MPI_Dist_graph_neighbors_count(comm, &in, &out, &has));
    CHECK_INT(in + out + (has != 0), 0);
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
