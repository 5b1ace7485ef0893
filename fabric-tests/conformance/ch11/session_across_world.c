/* A session that opens before MPI_Init and closes after MPI_Finalize: its communicator works all the time, whatever the World Model does.
 *
 * Covers: 11.3, 11.2.2
 * Ranks: 1 2 4
 */
#include "check.h"
#include "sessions.h"

int main(int argc, char **argv)
{
    MPI_Session session;
    MPI_Comm comm;
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    comm = comm_of_set(session, "mpi://WORLD", "across");
    use_comm(comm);
    check_start(&argc, &argv);
    use_comm(comm);
    use_comm(MPI_COMM_WORLD);
    MPI_Finalize();
    use_comm(comm);
    MPI_Comm more = comm_of_set(session, "mpi://WORLD", "more");
    use_comm(more);
    CHECK_INT(MPI_Comm_disconnect(&more), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    return check_verdict();
}
