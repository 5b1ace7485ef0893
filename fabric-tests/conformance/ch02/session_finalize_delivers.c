/* Ending a session, like ending MPI, first delivers what was sent on its communicators: buffered sends and freed requests
 * whose messages nobody has received yet. Sends on another session, which are received only later, are not in its way.
 *
 * Covers: 2.9, 3.6, 3.7.3, 11.2.2, 11.3.1
 * Ranks: 2 3
 * [MPICH 5.0 ends the session while a buffered message of its is still read by the receiver.]
 */
#include "check.h"

#define BIG 500000

static MPI_Comm open_session(MPI_Session *session, const char *tag)
{
    MPI_Group group;
    MPI_Comm comm;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session));
    CHECK_OK(MPI_Group_from_session_pset(*session, "mpi://WORLD", &group));
    CHECK_OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Comm_rank(comm, &check_rank));
    CHECK_OK(MPI_Comm_size(comm, &check_size));
    return comm;
}

int main(void)
{
    MPI_Session first, second;
    char *out = check_alloc(BIG), *in = check_alloc(BIG);
    for (int round = 0; round < 3; round++) {
        MPI_Comm comm = open_session(&first, "first"), other = open_session(&second, "second");
        int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
        MPI_Request request, late;
        char *space = check_alloc(BIG + MPI_BSEND_OVERHEAD);
        fill(out, BIG, (unsigned)check_rank);
        /* On the second: received after the first is over. */
        CHECK_OK(MPI_Issend(out, BIG, MPI_CHAR, next, 1, other, &late));
#if MPI_41
        CHECK_OK(MPI_Session_attach_buffer(first, space, BIG + MPI_BSEND_OVERHEAD));
#else
        CHECK_OK(MPI_Buffer_attach(space, BIG + MPI_BSEND_OVERHEAD));
#endif
        CHECK_OK(MPI_Bsend(out, BIG, MPI_CHAR, next, 2, comm));
        CHECK_OK(MPI_Isend(out, BIG, MPI_CHAR, next, 3, comm, &request));
        CHECK_OK(MPI_Request_free(&request));
        for (int tag = 3; tag >= 2; tag--) {
            CHECK_OK(MPI_Recv(in, BIG, MPI_CHAR, before, tag, comm, MPI_STATUS_IGNORE));
            CHECK_FILL(in, BIG, before);
        }
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Session_finalize(&first));
#if !MPI_41
        int size;
        void *address;
        CHECK_OK(MPI_Buffer_detach(&address, &size));
#endif
        /* Handed back. */
        memset(space, round, BIG);
        free(space);
        CHECK_OK(MPI_Recv(in, BIG, MPI_CHAR, before, 1, other, MPI_STATUS_IGNORE));
        CHECK_FILL(in, BIG, before);
        CHECK_OK(MPI_Wait(&late, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Comm_free(&other));
        CHECK_OK(MPI_Session_finalize(&second));
    }
    free(out);
    free(in);
    return check_verdict();
}
