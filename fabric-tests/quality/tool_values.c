/* What the tool interface shows is so: a value set before MPI_Init is in force afterwards and then fixed; the levels count what the program
 * holds.
 *
 * Covers: 15.3.6, 15.3.7
 * Ranks: 2
 */
#include "check.h"

static unsigned long long level(MPI_T_pvar_session session, const char *name)
{
    int index = -1, count;
    unsigned long long value = 0;
    MPI_T_pvar_handle handle;
    CHECK_INT(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_LEVEL, &index), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_read(session, handle, &value), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_handle_free(session, &handle), MPI_SUCCESS);
    return value;
}

int main(int argc, char **argv)
{
    int provided, index, count, got;
    uint32_t limit = 12345, told = 0;
    MPI_T_cvar_handle handle;
    MPI_T_pvar_session session;
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_get_index("weft_eager_limit", &index), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_write(handle, &limit), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
    CHECK_INT(level(session, "weft_communicators"), 0);
    check_start(&argc, &argv);
    CHECK_INT(MPI_T_cvar_read(handle, &told), MPI_SUCCESS);
    CHECK_INT(told, limit);
    CHECK_INT(MPI_T_cvar_write(handle, &limit), MPI_T_ERR_CVAR_SET_NOT_NOW);
    CHECK_INT(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);

    MPI_Comm comm;
    MPI_Request requests[5];
    CHECK_INT(level(session, "weft_communicators"), 2);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_INT(level(session, "weft_communicators"), 3);
    unsigned long long posted = level(session, "weft_posted_receives");
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 1 - check_rank, 100 + i, comm, &requests[i]));
    CHECK_INT(level(session, "weft_posted_receives"), posted + 5);
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Cancel(&requests[i]));
    CHECK_OK(MPI_Waitall(5, requests, MPI_STATUSES_IGNORE));
    CHECK_INT(level(session, "weft_posted_receives"), posted);
    CHECK_OK(MPI_Barrier(comm));
    CHECK_INT(level(session, "weft_peers") > 0, 1);
    if (check_rank == 0) {
        CHECK_OK(MPI_Send(&got, 1, MPI_INT, 1, 1, comm));
        CHECK_OK(MPI_Send(&got, 1, MPI_INT, 1, 2, comm));
        /* Nothing else comes while the other one counts. */
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 1, 3, comm, MPI_STATUS_IGNORE));
    } else {
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 2, comm, MPI_STATUS_IGNORE));
        CHECK_INT(level(session, "weft_unexpected_messages"), 1);
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
        CHECK_INT(level(session, "weft_unexpected_messages"), 0);
        CHECK_OK(MPI_Send(&got, 1, MPI_INT, 0, 3, comm));
    }
    CHECK_OK(MPI_Comm_free(&comm));
    MPI_Finalize();
    CHECK_INT(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_verdict();
}
