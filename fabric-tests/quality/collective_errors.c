/* Errors of collective calls that one process can see by itself: class, procedure, argument and value in the text. Nothing was sent, so that
 * the communicator works afterwards.
 *
 * Covers: 6.4, 6.5, 6.6, 6.7, 6.8, 6.9, 6.10, 6.11, 6.13
 * Ranks: 2
 */
#include "check.h"
#include "told.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request request = MPI_REQUEST_NULL;
    int in[16] = {0}, out[16], one[2] = {1, 1}, bad[2] = {1, -3}, places[2] = {0, 1}, me = check_rank;
    void *place = MPI_IN_PLACE;

    /* Roots. */
    TOLD(MPI_Bcast(in, 1, MPI_INT, 2, w), MPI_ERR_ROOT, "MPI_Bcast", "root is 2", "0 to 1");
    TOLD(MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, -1, w), MPI_ERR_ROOT, "MPI_Reduce", "root is -1");
    TOLD(MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, MPI_PROC_NULL, w), MPI_ERR_ROOT, "MPI_Gather", "root is");
    TOLD(MPI_Scatter_init(in, 1, MPI_INT, out, 1, MPI_INT, 7, w, MPI_INFO_NULL, &request), MPI_ERR_ROOT, "MPI_Scatter_init", "root is 7");
    TOLD(MPI_Ibcast(in, 1, MPI_INT, MPI_ROOT, w, &request), MPI_ERR_ROOT, "MPI_Ibcast", "root is");

    /* Operations. */
    TOLD(MPI_Allreduce(in, out, 1, MPI_INT, MPI_OP_NULL, w), MPI_ERR_OP, "MPI_Allreduce", "MPI_OP_NULL");
    TOLD(MPI_Reduce(in, out, 1, MPI_FLOAT, MPI_BAND, 0, w), MPI_ERR_OP, "MPI_BAND", "MPI_FLOAT");
    TOLD(MPI_Scan(in, out, 1, MPI_CHAR, MPI_SUM, w), MPI_ERR_OP, "MPI_SUM", "MPI_CHAR");
    TOLD(MPI_Exscan(in, out, 1, MPI_INT, MPI_MAXLOC, w), MPI_ERR_OP, "MPI_MAXLOC", "MPI_INT");
    TOLD(MPI_Allreduce(in, out, 1, MPI_INT, MPI_REPLACE, w), MPI_ERR_OP, "MPI_REPLACE");
    TOLD(MPI_Reduce_local(in, out, 1, MPI_DOUBLE, MPI_LXOR), MPI_ERR_OP, "MPI_Reduce_local", "MPI_LXOR", "MPI_DOUBLE");
    TOLD(MPI_Allreduce_init(in, out, 1, MPI_INT, MPI_OP_NULL, w, MPI_INFO_NULL, &request), MPI_ERR_OP, "MPI_Allreduce_init", "MPI_OP_NULL");

    /* Counts. */
    TOLD(MPI_Bcast(in, -1, MPI_INT, 0, w), MPI_ERR_COUNT, "MPI_Bcast", "count", "-1");
    TOLD(MPI_Allgatherv(in, 1, MPI_INT, out, bad, places, MPI_INT, w), MPI_ERR_COUNT, "recvcounts[1] is -3");
    TOLD(MPI_Alltoallv(in, bad, places, MPI_INT, out, one, places, MPI_INT, w), MPI_ERR_COUNT, "sendcounts[1] is -3");
    TOLD(MPI_Reduce_scatter(in, out, bad, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT, "MPI_Reduce_scatter", "recvcounts[1] is -3");
    TOLD(MPI_Reduce_scatter_block(in, out, -2, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT, "MPI_Reduce_scatter_block", "-2");
    TOLD(MPI_Reduce_local(in, out, -1, MPI_INT, MPI_SUM), MPI_ERR_COUNT, "MPI_Reduce_local", "-1");

    /* A process's own block: the count is that of one block, not of all. */
    TOLD(MPI_Allgather(in, 1, MPI_INT, out, 2, MPI_INT, w), MPI_ERR_COUNT, "MPI_Allgather", "4 bytes in the send argument", "8 bytes in the receive argument");
    TOLD(MPI_Alltoall(in, 2, MPI_INT, out, 1, MPI_INT, w), MPI_ERR_TRUNCATE, "MPI_Alltoall", "8 bytes in the send argument");
    if (me == 0) TOLD(MPI_Gather(in, 1, MPI_INT, out, 2, MPI_INT, 0, w), MPI_ERR_COUNT, "MPI_Gather", "own block");
    if (me == 1) TOLD(MPI_Scatter(in, 2, MPI_INT, out, 1, MPI_INT, 1, w), MPI_ERR_TRUNCATE, "MPI_Scatter", "own block");

    /* In place where it means nothing, and the same memory twice. */
    TOLD(MPI_Bcast(place, 1, MPI_INT, 0, w), MPI_ERR_BUFFER, "MPI_Bcast", "MPI_IN_PLACE");
    TOLD(MPI_Reduce(place, out, 1, MPI_INT, MPI_SUM, !me, w), MPI_ERR_BUFFER, "MPI_Reduce", "MPI_IN_PLACE");
    TOLD(MPI_Gather(place, 1, MPI_INT, out, 1, MPI_INT, !me, w), MPI_ERR_BUFFER, "MPI_Gather", "MPI_IN_PLACE");
    TOLD(MPI_Scatter(in, 1, MPI_INT, place, 1, MPI_INT, !me, w), MPI_ERR_BUFFER, "MPI_Scatter", "MPI_IN_PLACE");
    TOLD(MPI_Allgather(in, 1, MPI_INT, place, 1, MPI_INT, w), MPI_ERR_BUFFER, "MPI_Allgather", "MPI_IN_PLACE");
    TOLD(MPI_Reduce_local(place, out, 1, MPI_INT, MPI_SUM), MPI_ERR_BUFFER, "MPI_Reduce_local", "MPI_IN_PLACE");
    TOLD(MPI_Allreduce(in, in, 1, MPI_INT, MPI_SUM, w), MPI_ERR_BUFFER, "MPI_Allreduce", "MPI_IN_PLACE");
    TOLD(MPI_Allreduce(NULL, out, 1, MPI_INT, MPI_SUM, w), MPI_ERR_BUFFER, "MPI_Allreduce", "null");

    /* Null arrays, bad handles. */
    TOLD(MPI_Alltoallv(in, NULL, places, MPI_INT, out, one, places, MPI_INT, w), MPI_ERR_ARG, "sendcounts", "null");
    TOLD(MPI_Alltoallw(in, one, places, NULL, out, one, places, NULL, w), MPI_ERR_ARG, "null");
    TOLD(MPI_Bcast(in, 1, MPI_DATATYPE_NULL, 0, w), MPI_ERR_TYPE, "MPI_Bcast", "MPI_DATATYPE_NULL");
    TOLD(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "MPI_Barrier", "MPI_COMM_NULL");
    TOLD(MPI_Barrier_init(MPI_COMM_NULL, MPI_INFO_NULL, &request), MPI_ERR_COMM, "MPI_Barrier_init", "MPI_COMM_NULL");
    MPI_Datatype raw;
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &raw));
    TOLD(MPI_Bcast(in, 1, raw, 0, w), MPI_ERR_TYPE, "MPI_Bcast", "commit");
    CHECK_OK(MPI_Type_free(&raw));

    /* Persistent ones: freeing and cancelling. */
    CHECK_OK(MPI_Barrier_init(w, MPI_INFO_NULL, &request));
    TOLD(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "collective");
    CHECK_OK(MPI_Start(&request));
    TOLD(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start", "active");
    TOLD(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "collective");
    MPI_Request kept = request;
    TOLD(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "active collective");
    CHECK(request == kept);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Ibarrier(w, &request));
    TOLD(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "collective");
    TOLD(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "active collective");
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    int sum = 0;
    CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, w));
    CHECK_INT(sum, 1);
    return check_end();
}
