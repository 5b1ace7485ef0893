/* A program with a session and without the World Model: process set, group, communicator, traffic, end. MPI_Initialized and MPI_Finalized
 * stay false.
 *
 * Covers: 11.3, 11.3.1, 11.3.2, 7.3.2, 7.4.2, 11.2.3
 * Ranks: 1 2 5
 */
#include "check.h"
#include "sessions.h"

int main(void)
{
    MPI_Session session = MPI_SESSION_NULL;
    int flag = -1;
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    CHECK(session != MPI_SESSION_NULL);
    MPI_Comm world = comm_of_set(session, "mpi://WORLD", "world"), own = comm_of_set(session, "mpi://SELF", "own");
    check_by(world);
    use_comm(world);
    use_comm(own);
    CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    int size = 0;
    CHECK_INT(MPI_Comm_size(own, &size), MPI_SUCCESS);
    CHECK_INT(size, 1);
    /* Communicators beget others as anywhere. */
    MPI_Comm half, copy;
    CHECK_INT(MPI_Comm_split(world, check_rank % 2, 0, &half), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_dup(half, &copy), MPI_SUCCESS);
    use_comm(half);
    use_comm(copy);
    CHECK_INT(MPI_Comm_free(&copy), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_free(&half), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_disconnect(&own), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_disconnect(&world), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    CHECK(session == MPI_SESSION_NULL);
    CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    CHECK_INT(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    return check_verdict();
}
