/* Wrong arguments are found before anything is done, with the class of the argument and a text that names procedure,
 * argument and value.
 *
 * Covers: 2.8, 9.4, 3.2.3
 * Ranks: 1 2
 */
#include "check.h"
#include "told.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int value = 0, other = 0, n = check_size, counts[8] = {0}, displs[8] = {0}, flag, index;
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    MPI_Comm comm;
    MPI_Datatype type;
    for (int i = 0; i < 8; i++) counts[i] = 1, displs[i] = i;

    /* Ranks. */
    TOLD(MPI_Send(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Send", "dest", "77");
    TOLD(MPI_Send(&value, 1, MPI_INT, n, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Send", "dest");
    TOLD(MPI_Send(&value, 1, MPI_INT, -9, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest", "-9");
    TOLD(MPI_Send(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "dest");
    TOLD(MPI_Ssend(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Ssend", "77");
    TOLD(MPI_Rsend(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "MPI_Rsend", "77");
    TOLD(MPI_Isend(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK, "MPI_Isend", "77");
    TOLD(MPI_Issend(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK, "MPI_Issend", "77");
    TOLD(MPI_Recv(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "MPI_Recv", "source", "77");
    TOLD(MPI_Irecv(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD, &request), MPI_ERR_RANK, "MPI_Irecv", "source", "77");
    TOLD(MPI_Probe(77, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "MPI_Probe", "source", "77");
    TOLD(MPI_Iprobe(77, 0, MPI_COMM_WORLD, &flag, &status), MPI_ERR_RANK, "MPI_Iprobe", "77");
    TOLD(MPI_Mprobe(77, 0, MPI_COMM_WORLD, &message, &status), MPI_ERR_RANK, "MPI_Mprobe", "77");
    TOLD(MPI_Sendrecv(&value, 1, MPI_INT, 77, 0, &other, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "MPI_Sendrecv", "dest", "77");
    TOLD(MPI_Sendrecv(&value, 1, MPI_INT, 0, 0, &other, 1, MPI_INT, 78, 0, MPI_COMM_WORLD, &status), MPI_ERR_RANK, "source", "78");

    /* Tags. */
    TOLD(MPI_Send(&value, 1, MPI_INT, 0, -1, MPI_COMM_WORLD), MPI_ERR_TAG, "MPI_Send", "tag", "-1");
    TOLD(MPI_Send(&value, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD), MPI_ERR_TAG, "tag");
    TOLD(MPI_Recv(&value, 1, MPI_INT, 0, -77, MPI_COMM_WORLD, &status), MPI_ERR_TAG, "MPI_Recv", "tag", "-77");
    TOLD(MPI_Isend(&value, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, &request), MPI_ERR_TAG, "MPI_Isend", "tag", "-5");
    TOLD(MPI_Iprobe(0, -5, MPI_COMM_WORLD, &flag, &status), MPI_ERR_TAG, "tag", "-5");
    TOLD(MPI_Sendrecv(&value, 1, MPI_INT, 0, -3, &other, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_TAG, "tag", "-3");

    /* Counts. */
    TOLD(MPI_Send(&value, -1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "MPI_Send", "count", "-1");
    TOLD(MPI_Recv(&value, -2, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_COUNT, "MPI_Recv", "count", "-2");
    TOLD(MPI_Send_c(&value, -3, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "MPI_Send_c", "count", "-3");
    TOLD(MPI_Bcast(&value, -4, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_COUNT, "MPI_Bcast", "count", "-4");
    TOLD(MPI_Allreduce(&value, &other, -5, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_COUNT, "MPI_Allreduce", "count", "-5");
    TOLD(MPI_Type_contiguous(-6, MPI_INT, &type), MPI_ERR_COUNT, "MPI_Type_contiguous", "count", "-6");
    TOLD(MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE), MPI_ERR_COUNT, "MPI_Waitall", "-1");

    /* Datatypes. */
    TOLD(MPI_Send(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_Send", "datatype", "MPI_DATATYPE_NULL");
    TOLD(MPI_Recv(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_TYPE, "MPI_Recv", "datatype");
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    TOLD(MPI_Send(&value, 1, type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_Send", "datatype", "commit");
    TOLD(MPI_Irecv(&value, 1, type, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_TYPE, "MPI_Irecv", "commit");
    TOLD(MPI_Bcast(&value, 1, type, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_Bcast", "commit");
    CHECK_OK(MPI_Type_free(&type));
    TOLD(MPI_Type_free(&type), MPI_ERR_TYPE, "MPI_Type_free", "datatype");
    type = MPI_INT;
    TOLD(MPI_Type_free(&type), MPI_ERR_TYPE, "MPI_Type_free", "MPI_INT");

    /* Buffers. */
    TOLD(MPI_Send(NULL, 3, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_Send", "buf", "null");
    TOLD(MPI_Recv(NULL, 3, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_BUFFER, "MPI_Recv", "buf", "null");
    TOLD(MPI_Bcast(NULL, 3, MPI_INT, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_Bcast", "null");
    TOLD(MPI_Allreduce(&value, &value, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_Allreduce");
    TOLD(MPI_Send(MPI_IN_PLACE, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "MPI_Send", "MPI_IN_PLACE");

    /* Communicators. */
    TOLD(MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM, "MPI_Send", "comm", "MPI_COMM_NULL");
    TOLD(MPI_Barrier(MPI_COMM_NULL), MPI_ERR_COMM, "MPI_Barrier", "MPI_COMM_NULL");
    TOLD(MPI_Comm_rank(MPI_COMM_NULL, &value), MPI_ERR_COMM, "MPI_Comm_rank", "MPI_COMM_NULL");
    TOLD(MPI_Comm_dup(MPI_COMM_NULL, &comm), MPI_ERR_COMM, "MPI_Comm_dup");
    comm = MPI_COMM_WORLD;
    TOLD(MPI_Comm_free(&comm), MPI_ERR_COMM, "MPI_Comm_free", "MPI_COMM_WORLD");
    comm = MPI_COMM_SELF;
    TOLD(MPI_Comm_free(&comm), MPI_ERR_COMM, "MPI_Comm_free", "MPI_COMM_SELF");
    comm = MPI_COMM_NULL;
    TOLD(MPI_Comm_free(&comm), MPI_ERR_COMM, "MPI_Comm_free", "MPI_COMM_NULL");
    TOLD(MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &comm), MPI_ERR_ARG, "MPI_Comm_split", "color", "-5");

    /* Roots and operations. */
    TOLD(MPI_Bcast(&value, 1, MPI_INT, n, MPI_COMM_WORLD), MPI_ERR_ROOT, "MPI_Bcast", "root");
    TOLD(MPI_Reduce(&value, &other, 1, MPI_INT, MPI_SUM, -1, MPI_COMM_WORLD), MPI_ERR_ROOT, "MPI_Reduce", "root", "-1");
    TOLD(MPI_Gather(&value, 1, MPI_INT, &other, 1, MPI_INT, 99, MPI_COMM_WORLD), MPI_ERR_ROOT, "root", "99");
    TOLD(MPI_Scatterv(&value, counts, displs, MPI_INT, &other, 1, MPI_INT, 99, MPI_COMM_WORLD), MPI_ERR_ROOT, "root", "99");
    TOLD(MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_Allreduce", "op", "MPI_OP_NULL");
    TOLD(MPI_Allreduce(&value, &other, 1, MPI_DOUBLE, MPI_BAND, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_BAND", "MPI_DOUBLE");
    TOLD(MPI_Allreduce(&value, &other, 1, MPI_C_DOUBLE_COMPLEX, MPI_MAX, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_MAX");
    TOLD(MPI_Reduce(&value, &other, 1, MPI_CHAR, MPI_SUM, 0, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_SUM", "MPI_CHAR");
    TOLD(MPI_Allreduce(&value, &other, 1, MPI_INT, MPI_MAXLOC, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_MAXLOC");

    /* Null pointers for results. */
    TOLD(MPI_Comm_rank(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "MPI_Comm_rank", "rank", "null");
    TOLD(MPI_Comm_size(MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "MPI_Comm_size", "size", "null");
    TOLD(MPI_Isend(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, NULL), MPI_ERR_ARG, "MPI_Isend", "request", "null");
    TOLD(MPI_Waitany(1, NULL, &index, &status), MPI_ERR_ARG, "MPI_Waitany", "null");

    /* Requests and messages. */
    request = MPI_REQUEST_NULL;
    TOLD(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "MPI_REQUEST_NULL");
    TOLD(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "MPI_REQUEST_NULL");
    TOLD(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start");
    message = MPI_MESSAGE_NULL;
    TOLD(MPI_Mrecv(&value, 1, MPI_INT, &message, &status), MPI_ERR_REQUEST, "MPI_Mrecv", "MPI_MESSAGE_NULL");

    /* Everything still works. */
    int one = 1, sum = 0;
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_INT(sum, n);
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_INT(flag, 0);
    return check_end();
}
