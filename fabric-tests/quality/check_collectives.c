/* WEFT_CHECK=collectives: collective calls that do not fit together fail at all ranks with an error that names procedure, argument and two
 * ranks; the communicator works afterwards. All kinds: other procedures and forms, roots, operations, counts, type signatures, arrays
 * of counts, pairs of the v and w forms, neighbourhoods, intercommunicators.
 *
 * Covers: 6.14, 6.1
 * Ranks: 3
 * Env: WEFT_CHECK=collectives
 * Timeout: 60
 */
#include "check.h"
#include "told.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, odd = me == 2;
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request request;
    int in[64] = {0}, out[64];
    double real[8] = {0};

    /* Other procedures, or another form of the same. */
    TOLD(odd ? MPI_Barrier(w) : MPI_Bcast(in, 1, MPI_INT, 0, w), MPI_ERR_OTHER, "rank 0 calls MPI_Bcast", "rank 2 calls MPI_Barrier", "MPI_COMM_WORLD");
    request = MPI_REQUEST_NULL;
    if (odd) TOLD(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, w), MPI_ERR_OTHER, "rank 0 calls MPI_Iallreduce", "rank 2 calls MPI_Allreduce");
    else {
        CHECK_OK(MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, w, &request));
        TOLD(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "rank 0 calls MPI_Iallreduce", "rank 2 calls MPI_Allreduce");
    }
    TOLD(odd ? MPI_Bcast_init(in, 1, MPI_INT, 0, w, MPI_INFO_NULL, &request) : MPI_Barrier_init(w, MPI_INFO_NULL, &request),
         MPI_ERR_OTHER, "rank 0 calls MPI_Barrier_init", "rank 2 calls MPI_Bcast_init");

    /* Roots. */
    TOLD(MPI_Bcast(in, 1, MPI_INT, odd, w), MPI_ERR_ROOT, "MPI_Bcast on MPI_COMM_WORLD", "root is 0 at rank 0, but 1 at rank 2");
    TOLD(MPI_Gatherv(in, 1, MPI_INT, out, (int[]){1, 1, 1}, (int[]){0, 1, 2}, MPI_INT, odd, w), MPI_ERR_ROOT, "MPI_Gatherv", "root is 0 at rank 0, but 1 at rank 2");

    /* Operations. */
    TOLD(MPI_Allreduce(in, out, 2, MPI_INT, odd ? MPI_MAX : MPI_SUM, w), MPI_ERR_OP, "op is MPI_SUM at rank 0, but MPI_MAX at rank 2");
    TOLD(MPI_Reduce_init(in, out, 2, MPI_INT, odd ? MPI_MAX : MPI_SUM, 0, w, MPI_INFO_NULL, &request), MPI_ERR_OP, "MPI_Reduce_init", "op is MPI_SUM at rank 0, but MPI_MAX at rank 2");

    /* Amounts and type signatures. */
    TOLD(MPI_Bcast(in, odd ? 3 : 4, MPI_INT, 1, w), MPI_ERR_COUNT, "4 x MPI_INT (16 bytes) at rank 0, but 3 x MPI_INT (12 bytes) at rank 2");
    TOLD(odd ? MPI_Bcast(real, 2, MPI_DOUBLE, 0, w) : MPI_Bcast(in, 4, MPI_INT, 0, w), MPI_ERR_TYPE, "4 x MPI_INT (16 bytes) at rank 0, but 2 x MPI_DOUBLE (16 bytes) at rank 2");
    TOLD(MPI_Gather(in, odd ? 2 : 1, MPI_INT, out, 1, MPI_INT, 0, w), MPI_ERR_COUNT, "1 x MPI_INT", "2 x MPI_INT");
    TOLD(MPI_Scatter(in, 1, MPI_INT, out, odd ? 2 : 1, MPI_INT, 0, w), MPI_ERR_COUNT, "1 x MPI_INT", "2 x MPI_INT");
    TOLD(MPI_Allgather(in, 1 + odd, MPI_INT, out, 1 + odd, MPI_INT, w), MPI_ERR_COUNT, "rank 0", "rank 2");
    TOLD(MPI_Alltoall(in, 1, odd ? MPI_FLOAT : MPI_INT, out, 1, odd ? MPI_FLOAT : MPI_INT, w), MPI_ERR_TYPE, "1 x MPI_INT", "1 x MPI_FLOAT");
    TOLD(MPI_Allreduce(in, out, 1 + odd, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT, "1 x MPI_INT (4 bytes) at rank 0, but 2 x MPI_INT (8 bytes) at rank 2");
    TOLD(MPI_Scan(in, out, 1, odd ? MPI_UNSIGNED : MPI_INT, MPI_SUM, w), MPI_ERR_TYPE, "MPI_UNSIGNED", "rank 2");
    TOLD(MPI_Reduce_scatter(in, out, odd ? (int[]){1, 2, 1} : (int[]){1, 1, 2}, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT, "recvcounts", "rank 0", "rank 2");
    TOLD(MPI_Reduce_scatter_block(in, out, 1 + odd, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT, "rank 2");

    /* Different types of one signature fit. */
    MPI_Datatype pair;
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(odd ? MPI_Bcast(in, 2, pair, 0, w) : MPI_Bcast(in, 4, MPI_INT, 0, w));
    TOLD(odd ? MPI_Bcast(in, 3, pair, 0, w) : MPI_Bcast(in, 4, MPI_INT, 0, w), MPI_ERR_COUNT, "3 x a derived datatype (24 bytes) at rank 2");
    CHECK_OK(MPI_Type_free(&pair));

    /* Pairs. */
    int one[3] = {1, 1, 1}, two[3] = {1, 1, 1}, places[3] = {0, 4, 8};
    if (me == 1) two[2] = 2; /* rank 1 expects 2 of rank 2 */
    TOLD(MPI_Alltoallv(in, one, places, MPI_INT, out, two, places, MPI_INT, w), MPI_ERR_COUNT, "rank 2 gives rank 1 1 x MPI_INT (4 bytes)", "expects 2 x MPI_INT (8 bytes)");
    MPI_Datatype ints[3] = {MPI_INT, MPI_INT, MPI_INT}, other[3] = {MPI_INT, MPI_INT, MPI_INT};
    if (me == 0) other[1] = MPI_FLOAT;
    int bytes[3] = {0, 16, 32};
    TOLD(MPI_Alltoallw(in, one, bytes, ints, out, one, bytes, other, w), MPI_ERR_TYPE, "rank 1 gives rank 0 1 x MPI_INT", "expects 1 x MPI_FLOAT");
    TOLD(MPI_Allgatherv(in, 1, MPI_INT, out, odd ? (int[]){1, 2, 1} : one, places, MPI_INT, w), MPI_ERR_COUNT, "rank 1 gives rank 2 1 x MPI_INT", "expects 2 x");
    TOLD(MPI_Gatherv(in, odd ? 3 : 1, MPI_INT, out, one, places, MPI_INT, 0, w), MPI_ERR_COUNT, "rank 2 gives rank 0 3 x MPI_INT", "expects 1 x");
    TOLD(MPI_Scatterv(in, one, places, MPI_INT, out, odd ? 3 : 1, MPI_INT, 0, w), MPI_ERR_COUNT, "rank 0 gives rank 2 1 x MPI_INT", "expects 3 x");

    /* Neighbourhoods. */
    MPI_Comm ring;
    CHECK_OK(MPI_Cart_create(w, 1, &n, (int[]){1}, 0, &ring));
    CHECK_OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_name(ring, "the ring"));
    TOLD(MPI_Neighbor_allgather(in, odd ? 2 : 1, MPI_INT, out, 1, MPI_INT, ring), MPI_ERR_COUNT, "MPI_Neighbor_allgather on the ring", "rank 2 gives rank 0 2 x MPI_INT", "expects 1 x");
    CHECK_OK(MPI_Neighbor_alltoall(in, 1, MPI_INT, out, 1, MPI_INT, ring));
    CHECK_OK(MPI_Comm_free(&ring));

    /* Intercommunicators: rank 0 and ranks 1, 2. */
    MPI_Comm local, both;
    CHECK_OK(MPI_Comm_split(w, me > 0, me, &local));
    CHECK_OK(MPI_Intercomm_create(local, 0, w, me == 0 ? 1 : 0, 5, &both));
    CHECK_OK(MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN));
    TOLD(MPI_Bcast(in, 1 + odd, MPI_INT, me == 0 ? MPI_ROOT : 0, both), MPI_ERR_COUNT, me == 0 ? "rank 1 of the remote group" : "rank 1 of the local group", "expects 2 x MPI_INT");
    TOLD(MPI_Bcast(in, 1, MPI_INT, me == 0 ? MPI_PROC_NULL : 0, both), MPI_ERR_ROOT, "expects 1 x MPI_INT", "gives it nothing");
    TOLD(MPI_Allreduce(in, out, me == 0 ? 2 : 1, MPI_INT, MPI_SUM, both), MPI_ERR_COUNT, "MPI_Allreduce", "expects");
    TOLD(odd ? MPI_Barrier(both) : MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, both), MPI_ERR_OTHER, "MPI_Barrier", "MPI_Allgather");
    CHECK_OK(MPI_Barrier(both));
    CHECK_OK(MPI_Comm_free(&both));
    CHECK_OK(MPI_Comm_free(&local));

    /* What was wrong has left nothing behind. */
    int sum = 0;
    CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, w));
    CHECK_INT(sum, 3);
    return check_end();
}
