/* Arguments that are not significant at a process are not looked at there: they may hold anything, and an error about the others
 * never names them (2.3, 6.5, 6.6). A refused call has not begun: the next collective operation works.
 *
 * That the text of an error names the argument is asked by no standard, so peers fail this program where it looks for names.
 *
 * Covers: 2.3, 6.5, 6.6, 9.4
 * Ranks: 2 3
 */
#include "check.h"

static MPI_Comm comm;

/* A call that must be refused with a text about `argument`, and not about `other`. */
static void refused(int code, int wanted, const char *argument, const char *other)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    CHECK_INT(check_class_of(code), wanted);
    MPI_Error_string(code, text, &length);
    if (!strstr(text, argument) || strstr(text, other)) CHECK_FAIL("\"%s\" is not about %s", text, argument);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype bare;
    int in[8] = {0}, out[8] = {0}, rank, size;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    CHECK_OK(MPI_Comm_size(comm, &size));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &bare));

    if (rank != 0) {
        refused(MPI_Gather(out, 1, MPI_DATATYPE_NULL, in, 1, MPI_DATATYPE_NULL, 0, comm), MPI_ERR_TYPE, "sendtype", "recvtype");
        refused(MPI_Gather(out, 1, bare, in, 1, bare, 0, comm), MPI_ERR_TYPE, "sendtype", "recvtype");
        refused(MPI_Gather(out, -1, MPI_INT, in, -1, MPI_INT, 0, comm), MPI_ERR_COUNT, "sendcount", "recvcount");
        refused(MPI_Gatherv(out, 1, bare, in, NULL, NULL, bare, 0, comm), MPI_ERR_TYPE, "sendtype", "recvtype");
        refused(MPI_Scatter(out, -1, MPI_INT, in, -1, MPI_INT, 0, comm), MPI_ERR_COUNT, "recvcount", "sendcount");
        refused(MPI_Scatter(out, 1, bare, in, 1, bare, 0, comm), MPI_ERR_TYPE, "recvtype", "sendtype");
        refused(MPI_Scatterv(out, NULL, NULL, bare, in, 1, bare, 0, comm), MPI_ERR_TYPE, "recvtype", "sendtype");
        refused(MPI_Gather_c(out, -1, MPI_INT, in, -1, MPI_INT, 0, comm), MPI_ERR_COUNT, "sendcount", "recvcount");
    }
    /* In place, the sending half means nothing anywhere; in broadcasts and reductions there is one half. */
    refused(MPI_Allgather(MPI_IN_PLACE, -1, bare, in, 1, bare, comm), MPI_ERR_TYPE, "recvtype", "sendtype");
    refused(MPI_Alltoall(MPI_IN_PLACE, -1, bare, in, -1, MPI_INT, comm), MPI_ERR_COUNT, "recvcount", "sendcount");

    /* Nothing of this was begun, and what is not significant may be wrong. */
    out[0] = rank + 1;
    if (rank == 0)
        CHECK_OK(MPI_Gather(out, 1, MPI_INT, in, 1, MPI_INT, 0, comm));
    else
        CHECK_OK(MPI_Gather(out, 1, MPI_INT, NULL, -5, bare, 0, comm));
    for (int i = 0; rank == 0 && i < size; i++) CHECK_INT(in[i], i + 1);
    if (rank == 0)
        CHECK_OK(MPI_Scatter(in, 1, MPI_INT, MPI_IN_PLACE, -7, MPI_DATATYPE_NULL, 0, comm));
    else
        CHECK_OK(MPI_Scatter(NULL, -7, MPI_DATATYPE_NULL, out, 1, MPI_INT, 0, comm));
    CHECK_INT(out[0], rank + 1);
    out[0] = 0;
    CHECK_OK(MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, in, 1, MPI_INT, comm));

    CHECK_OK(MPI_Type_free(&bare));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
