/* Memory allocation kinds asked for at the launch: those of the standard are granted in the words of the request, one that nobody has is
 * not; MPI_INFO_ENV, communicators, windows and sessions that ask for nothing else tell the same. (MPICH 5.0 leaves the key out of
 * MPI_INFO_ENV, though section 11.4.3 compares the others with it.)
 *
 * Covers: 11.4.3, 11.2.1, 11.3.3, 11.5
 * Ranks: 1 2
 * Mpiexec: -memory-alloc-kinds mpi:alloc_mem,nobody:has,system
 */
#include "check.h"
#include "sessions.h"
#include "kinds.h"

int main(int argc, char **argv)
{
    char env[MPI_MAX_INFO_VAL], other[MPI_MAX_INFO_VAL];
    MPI_Comm comm, derived;
    MPI_Session session;
    MPI_Win win;
    int *memory;
    check_start(&argc, &argv);
    value_of(MPI_INFO_ENV, KINDS, env);
    CHECK(has(env, "mpi:alloc_mem"));
    CHECK(has(env, "system"));
    CHECK(strstr(env, "nobody") == NULL);
    CHECK_STR(of_comm(MPI_COMM_WORLD, KINDS, other), env);
    CHECK_STR(of_comm(MPI_COMM_SELF, KINDS, other), env);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_STR(of_comm(comm, KINDS, other), env);
    CHECK_OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, comm, &memory, &win));
    CHECK_STR(of_win(win, KINDS, other), env);
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK(session_info(session, KINDS, other, sizeof other));
    CHECK(has(other, "mpi:alloc_mem") && has(other, "system"));
    char granted[MPI_MAX_INFO_VAL];
    strcpy(granted, other);
    derived = comm_of_set(session, "mpi://WORLD", "kinds");
    CHECK_STR(of_comm(derived, KINDS, other), granted);
    CHECK_OK(MPI_Comm_disconnect(&derived));
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
