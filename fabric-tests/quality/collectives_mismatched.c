/* Collective calls that do not match are a program's error (section 6.1). On a node they are found where one member waits for another; then nobody waits
 * for ever, the calls that fail say why, and after a few of them the communicator works again.
 *
 * Covers: 6.1
 * Node: one
 * Ranks: 2 3 4
 */
#include "check.h"
#include <string.h>

/* Calls until all succeed: calls that others had begun before they knew may fail. */
static void works_again(MPI_Comm comm)
{
    int me = check_rank, sum = -1, failed = 1, tries = 0;
    while (failed && tries++ < 20) failed = MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS;
    CHECK(!failed);
    CHECK_INT(sum, check_size * (check_size - 1) / 2);
    /* All are in the same call now. */
    for (int i = 0; i < 30; i++) {
        int value = check_rank == i % check_size ? i : -1;
        CHECK_OK(MPI_Bcast(&value, 1, MPI_INT, i % check_size, comm));
        CHECK_INT(value, i);
    }
    CHECK_OK(MPI_Barrier(comm));
}

/* A communicator whose calls go the short way. */
static MPI_Comm warmed(void)
{
    MPI_Comm comm;
    int all[16];
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Allgather(&i, 1, MPI_INT, all, 1, MPI_INT, comm));
    return comm;
}

/* `by_messages`: the call may have gone by messages, which tell their lengths. */
static void told(int code, int by_messages)
{
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (code == MPI_SUCCESS) return;
    CHECK_INT(check_class_of(code), MPI_ERR_TRUNCATE);
    MPI_Error_string(code, text, &length);
    if (!by_messages) CHECK(strstr(text, "disagree") != NULL);
}

int main(int argc, char **argv)
{
    static int in[16000], out[16000];
    int code;
    check_start(&argc, &argv);
    /* Other counts, both found by everybody. */
    MPI_Comm comm = warmed();
    code = MPI_Allreduce(in, out, check_rank == 0 ? 2 : 3, MPI_INT, MPI_SUM, comm);
    CHECK(code != MPI_SUCCESS);
    told(code, 0);
    works_again(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    /* The root of a broadcast waits for nobody and runs ahead. */
    comm = warmed();
    for (int i = 0; i < 5; i++) {
        code = MPI_Bcast(in, check_rank == check_size - 1 ? 4 : 3, MPI_INT, 0, comm);
        if (i == 0 && check_rank == check_size - 1) CHECK(code != MPI_SUCCESS);
        told(code, i > 0);
    }
    works_again(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    /* Calls of many rounds and of one (longer ones to one other go by a message, see check_bcast_to_one). */
    comm = warmed();
    code = MPI_Allgather(in, 1000, MPI_INT, out, 1000, MPI_INT, comm);
    CHECK_INT(code, MPI_SUCCESS);
    if (check_rank == 0) code = MPI_Bcast(in, 16000, MPI_INT, 0, comm);
    else code = MPI_Bcast(in, 3000, MPI_INT, 0, comm);
    told(code, 0);
    works_again(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    /* Nonblocking ones. */
    comm = warmed();
    for (int i = 0; i < 3; i++) {
        MPI_Request requests[2];
        code = MPI_Iallreduce(in, out, check_rank == 0 ? 2 : 3, MPI_INT, MPI_SUM, comm, &requests[0]);
        told(code, 1);
        code = MPI_Ibarrier(comm, &requests[1]);
        told(code, 1);
        for (int j = 0; j < 2; j++) told(MPI_Wait(&requests[j], MPI_STATUS_IGNORE), 1);
    }
    for (int i = 0; i < 20; i++) {
        MPI_Request request;
        int me = check_rank, sum = -1;
        CHECK_OK(MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_INT(sum, check_size * (check_size - 1) / 2);
    }
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
