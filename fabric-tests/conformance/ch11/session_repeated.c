/* Sessions open and close again and again, before MPI_Init, beside it, and after MPI_Finalize, each with communicators of its own.
 *
 * Covers: 11.3, 11.3.1
 * Ranks: 1 3
 * Leaves: yes
 */
#include "check.h"
#include "sessions.h"

static void once(int number)
{
    MPI_Session session;
    char tag[32];
    snprintf(tag, sizeof tag, "round %d", number);
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    MPI_Comm comm = comm_of_set(session, "mpi://WORLD", tag);
    use_comm(comm);
    /* Disconnected, freed and left alone: the end of the session works with all. */
    if (number % 3 == 0) CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    if (number % 3 == 1) CHECK_INT(MPI_Comm_free(&comm), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    CHECK(session == MPI_SESSION_NULL);
}

int main(int argc, char **argv)
{
    int number = 0, flag = -1;
    while (number < 6) once(number++);
    check_start(&argc, &argv);
    while (number < 12) once(number++);
    use_comm(MPI_COMM_WORLD);
    MPI_Finalize();
    while (number < 18) once(number++);
    CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK(flag);
    CHECK_INT(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK(flag);
    return check_verdict();
}
