/* WEFT_CHECK=collectives: neighborhood calls that do not fit together fail at all ranks with an error that names procedure and two ranks: each
 * of the five operations in each form, amounts and types along an edge, other operations, and graphs whose edges go one way; the
 * communicator works afterwards.
 *
 * Covers: 8.6, 8.7, 8.8
 * Ranks: 3
 * Env: WEFT_CHECK=collectives
 * Timeout: 60
 */
#include "check.h"
#include "told.h"

enum { ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, OPERATIONS, BLOCKING = 0, NONBLOCKING, PERSISTENT, FORMS };

static const char *const names[FORMS][OPERATIONS] = {
    {"MPI_Neighbor_allgather", "MPI_Neighbor_allgatherv", "MPI_Neighbor_alltoall", "MPI_Neighbor_alltoallv", "MPI_Neighbor_alltoallw"},
    {"MPI_Ineighbor_allgather", "MPI_Ineighbor_allgatherv", "MPI_Ineighbor_alltoall", "MPI_Ineighbor_alltoallv", "MPI_Ineighbor_alltoallw"},
    {"MPI_Neighbor_allgather_init", "MPI_Neighbor_allgatherv_init", "MPI_Neighbor_alltoall_init", "MPI_Neighbor_alltoallv_init",
     "MPI_Neighbor_alltoallw_init"}};

static int in[16], out[16];
static MPI_Comm comm;
static MPI_Request request;

#define FORM(name, ...)                                                                             \
    return form == BLOCKING ? MPI_Neighbor_##name(__VA_ARGS__)                                      \
           : form == NONBLOCKING ? MPI_Ineighbor_##name(__VA_ARGS__, &request)                      \
                                 : MPI_Neighbor_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request)

/* Two neighbors at most get `sent` elements of a type each, and give one int each. */
static int begin(int operation, int form, int sent, MPI_Datatype type)
{
    int some[2] = {sent, sent}, one[2] = {1, 1}, places[2] = {0, 4};
    MPI_Aint bytes[2] = {0, 16};
    MPI_Datatype given[2] = {type, type}, taken[2] = {MPI_INT, MPI_INT};
    request = MPI_REQUEST_NULL;
    switch (operation) {
    case ALLGATHER: FORM(allgather, in, sent, type, out, 1, MPI_INT, comm);
    case ALLGATHERV: FORM(allgatherv, in, sent, type, out, one, places, MPI_INT, comm);
    case ALLTOALL: FORM(alltoall, in, sent, type, out, 1, MPI_INT, comm);
    case ALLTOALLV: FORM(alltoallv, in, some, places, type, out, one, places, MPI_INT, comm);
    default: FORM(alltoallw, in, some, bytes, given, out, one, bytes, taken, comm);
    }
}

/* A call to its end: of one that is not blocking the error comes with the request. */
static int whole(int operation, int form, int sent, MPI_Datatype type)
{
    int code = begin(operation, form, sent, type);
    if (code != MPI_SUCCESS || form == BLOCKING) return code;
    if (form == PERSISTENT) {
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        return MPI_Request_free(&request);
    }
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void check_all(const char *name, int odd)
{
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_name(comm, name));
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (int form = BLOCKING; form < FORMS; form++) {
            const char *title = names[form][operation];
            int next = (operation + 1) % OPERATIONS;
            TOLD(whole(operation, form, odd ? 2 : 1, MPI_INT), MPI_ERR_COUNT, title, name, "rank 2 gives rank", "2 x MPI_INT", "expects 1 x MPI_INT");
            TOLD(whole(operation, form, 1, odd ? MPI_FLOAT : MPI_INT), MPI_ERR_TYPE, title, name, "rank 2 gives rank", "1 x MPI_FLOAT");
            TOLD(whole(odd ? next : operation, form, 1, MPI_INT), MPI_ERR_OTHER, title, names[form][next], "rank 0 calls", "rank 2 calls");
            CHECK_OK(whole(operation, form, 1, MPI_INT));
        }
    CHECK_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, right = (me + 1) % n, left = (me + n - 1) % n;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n, (int[]){1}, 0, &comm));
    check_all("the ring", me == 2);
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, n, (int[]){2, 4, 6}, (int[]){1, 2, 0, 2, 0, 1}, 0, &comm));
    check_all("the triangle", me == 2);
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    check_all("the one way", me == 2);
    return check_end();
}
