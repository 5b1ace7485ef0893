/* The end of a session is local when its communicators were disconnected: it returns although another process has not reached its own end,
 * and although a synchronous send of the World Model waits for a receive that comes later.
 *
 * Covers: 11.3.1, 2.9
 * Ranks: 2
 */
#include "check.h"
#include "sessions.h"

int main(int argc, char **argv)
{
    int value = 42, got = 0;
    MPI_Request request;
    MPI_Session session;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    MPI_Comm comm = comm_of_set(session, "mpi://WORLD", "local end");
    use_comm(comm);
    CHECK_OK(MPI_Comm_disconnect(&comm));
    if (check_rank == 0) {
        CHECK_OK(MPI_Issend(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Session_finalize(&session));
        /* Only now may the other go on. */
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(got, 42);
        CHECK_OK(MPI_Session_finalize(&session));
    }
    return check_end();
}
