/* From MPI_BOTTOM on displacements in bytes are addresses: neighborhood and other exchanges of predefined datatypes, blocking, nonblocking and
 * persistent; but nothing lies at MPI_BOTTOM itself. (MPICH 5.0.1 takes MPI_BOTTOM for no buffer here.)
 *
 * Covers: 5.1.12, 6.8, 8.6.2
 * Ranks: 1 2 3 4 5
 */
#include "check.h"

enum { MOST = 8, NUMBERS = 3 };

static int out[MOST][NUMBERS], in[MOST][NUMBERS];

static void number_all(int n)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < NUMBERS; k++) {
            out[i][k] = check_rank * 1000 + i * 10 + k;
            in[i][k] = -1;
        }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm ring;
    MPI_Aint to[MOST], from[MOST];
    int counts[MOST], size = check_size, me = check_rank;
    MPI_Count large[MOST];
    MPI_Datatype types[MOST];
    for (int i = 0; i < MOST; i++) {
        CHECK_OK(MPI_Get_address(out[i], &to[i]));
        CHECK_OK(MPI_Get_address(in[i], &from[i]));
        counts[i] = NUMBERS;
        large[i] = NUMBERS;
        types[i] = MPI_INT;
    }
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, (int[]){size}, (int[]){1}, 0, &ring));
    for (int form = 0; form < 3; form++) {
        MPI_Request request;
        number_all(2);
        if (form == 0)
            CHECK_OK(MPI_Neighbor_alltoallw(MPI_BOTTOM, counts, to, types, MPI_BOTTOM, counts, from, types, ring));
        else if (form == 1)
            CHECK_OK(MPI_Ineighbor_alltoallw(MPI_BOTTOM, counts, to, types, MPI_BOTTOM, counts, from, types, ring, &request));
        else {
            CHECK_OK(MPI_Neighbor_alltoallw_init(MPI_BOTTOM, counts, to, types, MPI_BOTTOM, counts, from, types, ring,
                                                 MPI_INFO_NULL, &request));
            CHECK_OK(MPI_Start(&request));
        }
        if (form > 0) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (form > 1) CHECK_OK(MPI_Request_free(&request));
        int left = (me + size - 1) % size, right = (me + 1) % size;
        for (int k = 0; k < NUMBERS; k++) {
            /* What the left neighbour sends to its right one, and the other way round. */
            CHECK_INT(in[0][k], left * 1000 + 10 + k);
            CHECK_INT(in[1][k], right * 1000 + k);
        }
    }
    number_all(size);
    CHECK_OK(MPI_Alltoallw_c(MPI_BOTTOM, large, to, types, MPI_BOTTOM, large, from, types, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        for (int k = 0; k < NUMBERS; k++) CHECK_INT(in[i][k], i * 1000 + me * 10 + k);
    /* Displacements in units of a datatype of one byte. */
    for (int i = 0; i < MOST; i++) large[i] = sizeof out[i];
    number_all(size);
    CHECK_OK(MPI_Alltoallv_c(MPI_BOTTOM, large, to, MPI_BYTE, MPI_BOTTOM, large, from, MPI_BYTE, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++)
        for (int k = 0; k < NUMBERS; k++) CHECK_INT(in[i][k], i * 1000 + me * 10 + k);
    /* Nothing lies there. */
    CHECK_OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    for (int i = 0; i < MOST; i++) to[i] = (MPI_Aint)(i * sizeof out[i]);
    int class, code = MPI_Neighbor_alltoallw(MPI_BOTTOM, counts, to, types, MPI_BOTTOM, counts, from, types, ring);
    CHECK(code != MPI_SUCCESS);
    CHECK_OK(MPI_Error_class(code, &class));
    CHECK_INT(class, MPI_ERR_BUFFER);
    CHECK_OK(MPI_Comm_free(&ring));
    return check_end();
}
