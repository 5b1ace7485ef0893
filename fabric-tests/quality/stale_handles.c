/* Freed, foreign and garbage handles are found and named; nothing crashes.
 *
 * Covers: 2.5.1, 2.8
 * Ranks: 1 2
 */
#include "check.h"
#include "told.h"

/* Not a handle of anything: small numbers, pointers, patterns. */
static const intptr_t garbage[] = {1, 7, 4095, 0x1234567, 0x7fffffff, (intptr_t)0xdeadbeef, -1, (intptr_t)0x5a5a5a5a5a5a5a5a};

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int value = 0, result, flag;
    MPI_Status status;
    MPI_Comm comm, stale;
    MPI_Datatype type, stale_type;
    MPI_Request request, stale_request;

    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    stale = comm;
    CHECK_OK(MPI_Comm_free(&comm));
    TOLD(MPI_Send(&value, 1, MPI_INT, 0, 0, stale), MPI_ERR_COMM, "MPI_Send", "comm", "freed");
    TOLD(MPI_Barrier(stale), MPI_ERR_COMM, "MPI_Barrier", "freed");
    TOLD(MPI_Comm_free(&stale), MPI_ERR_COMM, "MPI_Comm_free", "freed");
    TOLD(MPI_Comm_compare(stale, MPI_COMM_WORLD, &result), MPI_ERR_COMM, "MPI_Comm_compare");
    /* Its place taken by another, the old handle is still stale. */
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK(comm != stale);
    TOLD(MPI_Comm_rank(stale, &value), MPI_ERR_COMM, "MPI_Comm_rank", "freed");
    CHECK_OK(MPI_Comm_free(&comm));

    CHECK_OK(MPI_Type_contiguous(4, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    stale_type = type;
    CHECK_OK(MPI_Type_free(&type));
    TOLD(MPI_Send(&value, 1, stale_type, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_Send", "datatype", "freed");
    TOLD(MPI_Type_size(stale_type, &value), MPI_ERR_TYPE, "MPI_Type_size", "freed");
    TOLD(MPI_Type_free(&stale_type), MPI_ERR_TYPE, "MPI_Type_free", "freed");

    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &request));
    stale_request = request;
    CHECK_OK(MPI_Send(&result, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, &status));
    request = stale_request;
    TOLD(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "MPI_Wait", "request");
    request = stale_request;
    TOLD(MPI_Test(&request, &flag, &status), MPI_ERR_REQUEST, "MPI_Test");
    request = stale_request;
    TOLD(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free");

    /* Handles of another kind. */
    TOLD(MPI_Send(&value, 1, MPI_INT, 0, 0, (MPI_Comm)MPI_INT), MPI_ERR_COMM, "MPI_Send", "comm");
    TOLD(MPI_Send(&value, 1, (MPI_Datatype)MPI_COMM_WORLD, 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_Send", "datatype");
    TOLD(MPI_Allreduce(&value, &result, 1, MPI_INT, (MPI_Op)MPI_INT, MPI_COMM_WORLD), MPI_ERR_OP, "MPI_Allreduce", "op");
    TOLD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, (MPI_Errhandler)MPI_SUM), MPI_ERR_ERRHANDLER, "MPI_Comm_set_errhandler");
    request = (MPI_Request)MPI_COMM_WORLD;
    TOLD(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "MPI_Wait");

    for (unsigned i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        TOLD(MPI_Send(&value, 1, MPI_INT, 0, 0, (MPI_Comm)garbage[i]), MPI_ERR_COMM, "MPI_Send", "comm");
        TOLD(MPI_Send(&value, 1, (MPI_Datatype)garbage[i], 0, 0, MPI_COMM_WORLD), MPI_ERR_TYPE, "MPI_Send", "datatype");
        TOLD(MPI_Allreduce(&value, &result, 1, MPI_INT, (MPI_Op)garbage[i], MPI_COMM_WORLD), MPI_ERR_OP, "MPI_Allreduce");
        request = (MPI_Request)garbage[i];
        TOLD(MPI_Wait(&request, &status), MPI_ERR_REQUEST, "MPI_Wait");
        TOLD(MPI_Comm_set_errhandler(MPI_COMM_WORLD, (MPI_Errhandler)garbage[i]), MPI_ERR_ERRHANDLER, "MPI_Comm_set_errhandler");
    }
    return check_end();
}
