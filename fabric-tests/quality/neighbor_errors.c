/* Errors of neighborhood collectives, each operation in each form, with int and MPI_Count arguments: MPI_IN_PLACE has no meaning, a communicator
 * without a topology has no neighbors, and requests of the nonblocking and the started persistent ones can be neither freed nor
 * cancelled. Nothing was sent where one was refused: the communicator works afterwards.
 *
 * Covers: 8.6, 8.7, 8.8, 6.12, 6.13
 * Ranks: 2 3
 */
#include "check.h"
#include "told.h"

enum { OPERATIONS = 5, BLOCKING = 0, NONBLOCKING, PERSISTENT, FORMS };

static const char *const names[OPERATIONS] = {"eighbor_allgather", "eighbor_allgatherv", "eighbor_alltoall", "eighbor_alltoallv",
                                              "eighbor_alltoallw"};
static int counts[2] = {1, 1}, displs[2] = {0, 1};
static MPI_Count counts_c[2] = {1, 1};
static MPI_Aint displs_c[2] = {0, 1}, bytes[2] = {0, sizeof(int)};
static MPI_Datatype types[2];

#define ARGUMENTS(...) __VA_ARGS__
#define FORM(name, ints, wide)                                                                              \
    switch (2 * form + large) {                                                                             \
    case 0: return MPI_Neighbor_##name(ARGUMENTS ints, comm);                                               \
    case 1: return MPI_Neighbor_##name##_c(ARGUMENTS wide, comm);                                           \
    case 2: return MPI_Ineighbor_##name(ARGUMENTS ints, comm, request);                                     \
    case 3: return MPI_Ineighbor_##name##_c(ARGUMENTS wide, comm, request);                                 \
    case 4: return MPI_Neighbor_##name##_init(ARGUMENTS ints, comm, MPI_INFO_NULL, request);                \
    default: return MPI_Neighbor_##name##_init_c(ARGUMENTS wide, comm, MPI_INFO_NULL, request);             \
    }

/* One number for each of two neighbors. */
static int call(int operation, int form, int large, const void *in, void *out, MPI_Comm comm, MPI_Request *request)
{
    switch (operation) {
    case 0: FORM(allgather, (in, 1, MPI_INT, out, 1, MPI_INT), (in, 1, MPI_INT, out, 1, MPI_INT))
    case 1: FORM(allgatherv, (in, 1, MPI_INT, out, counts, displs, MPI_INT), (in, 1, MPI_INT, out, counts_c, displs_c, MPI_INT))
    case 2: FORM(alltoall, (in, 1, MPI_INT, out, 1, MPI_INT), (in, 1, MPI_INT, out, 1, MPI_INT))
    case 3:
        FORM(alltoallv, (in, counts, displs, MPI_INT, out, counts, displs, MPI_INT),
             (in, counts_c, displs_c, MPI_INT, out, counts_c, displs_c, MPI_INT))
    default:
        FORM(alltoallw, (in, counts, bytes, types, out, counts, bytes, types), (in, counts_c, bytes, types, out, counts_c, bytes, types))
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm ring;
    int n = check_size, in[2] = {check_rank, check_rank}, out[2], left = (check_rank + n - 1) % n, right = (check_rank + 1) % n;
    types[0] = types[1] = MPI_INT;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &n, (int[]){1}, 0, &ring));
    CHECK_OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    for (int operation = 0; operation < OPERATIONS; operation++)
        for (int form = BLOCKING; form < FORMS; form++)
            for (int large = 0; large < 2; large++) {
                MPI_Request request = MPI_REQUEST_NULL;
                const char *name = names[operation];
                TOLD(call(operation, form, large, MPI_IN_PLACE, out, ring, &request), MPI_ERR_BUFFER, name, "MPI_IN_PLACE", "section 8.6");
                TOLD(call(operation, form, large, in, MPI_IN_PLACE, ring, &request), MPI_ERR_BUFFER, name, "MPI_IN_PLACE", "section 8.6");
                TOLD(call(operation, form, large, in, out, MPI_COMM_WORLD, &request), MPI_ERR_TOPOLOGY, name, "MPI_COMM_WORLD", "has none");
                CHECK(request == MPI_REQUEST_NULL);

                out[0] = out[1] = -1;
                CHECK_OK(call(operation, form, large, in, out, ring, &request));
                if (form != BLOCKING) {
                    if (form == PERSISTENT) {
                        TOLD(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "collective");
                        CHECK_OK(MPI_Start(&request));
                        TOLD(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start", "active");
                    }
                    MPI_Request kept = request;
                    TOLD(MPI_Cancel(&request), MPI_ERR_REQUEST, "MPI_Cancel", "collective");
                    TOLD(MPI_Request_free(&request), MPI_ERR_REQUEST, "MPI_Request_free", "active collective");
                    CHECK(request == kept);
                    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                    if (form == PERSISTENT) CHECK_OK(MPI_Request_free(&request));
                    CHECK(request == MPI_REQUEST_NULL);
                }
                CHECK_INT(out[0], left);
                CHECK_INT(out[1], right);
            }
    CHECK_OK(MPI_Comm_free(&ring));
    return check_end();
}
