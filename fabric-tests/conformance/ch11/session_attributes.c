/* Communicators of a session have the attribute MPI_TAG_UB, the same at all processes; the other attributes of the environment belong to
 * MPI_COMM_WORLD. (That they are absent is asked by "only" in section 9.1.2: MPICH 5.0 has them.)
 *
 * Covers: 9.1.2
 * Ranks: 1 2 3
 */
#include "check.h"
#include "sessions.h"

int main(void)
{
    static const int others[] = {MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE};
    MPI_Session session;
    int *bound = NULL, flag = 0, least = 0, most = 0;
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    MPI_Comm comm = comm_of_set(session, "mpi://WORLD", "attributes"), copy;
    check_by(comm);
    CHECK_INT(MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, &flag), MPI_SUCCESS);
    CHECK(flag && *bound >= 32767);
    CHECK_INT(MPI_Allreduce(bound, &least, 1, MPI_INT, MPI_MIN, comm), MPI_SUCCESS);
    CHECK_INT(MPI_Allreduce(bound, &most, 1, MPI_INT, MPI_MAX, comm), MPI_SUCCESS);
    CHECK_INT(least, most);
    CHECK_INT(MPI_Comm_dup(comm, &copy), MPI_SUCCESS);
    for (unsigned i = 0; i < sizeof others / sizeof *others; i++) {
        int *value = NULL;
        flag = -1;
        CHECK_INT(MPI_Comm_get_attr(comm, others[i], &value, &flag), MPI_SUCCESS);
        CHECK_INT(flag, 0);
        CHECK_INT(MPI_Comm_get_attr(copy, others[i], &value, &flag), MPI_SUCCESS);
        CHECK_INT(flag, 0);
    }
    if (check_size > 1) {
        MPI_Group all, mine, theirs;
        MPI_Comm inter;
        int me = check_rank, rest[64], n = 0, first = 0;
        for (int i = 1; i < check_size; i++) rest[n++] = i;
        CHECK_INT(MPI_Group_from_session_pset(session, "mpi://WORLD", &all), MPI_SUCCESS);
        CHECK_INT(MPI_Group_incl(all, me == 0 ? 1 : n, me == 0 ? &first : rest, &mine), MPI_SUCCESS);
        CHECK_INT(MPI_Group_incl(all, me == 0 ? n : 1, me == 0 ? rest : &first, &theirs), MPI_SUCCESS);
        CHECK_INT(MPI_Intercomm_create_from_groups(mine, 0, theirs, 0, "inter", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter),
                  MPI_SUCCESS);
        int *again = NULL;
        CHECK_INT(MPI_Comm_get_attr(inter, MPI_TAG_UB, &again, &flag), MPI_SUCCESS);
        CHECK(flag && *again == *bound);
        CHECK_INT(MPI_Comm_get_attr(inter, MPI_UNIVERSE_SIZE, &again, &flag), MPI_SUCCESS);
        CHECK_INT(flag, 0);
        CHECK_INT(MPI_Comm_disconnect(&inter), MPI_SUCCESS);
        CHECK_INT(MPI_Group_free(&all), MPI_SUCCESS);
        CHECK_INT(MPI_Group_free(&mine), MPI_SUCCESS);
        CHECK_INT(MPI_Group_free(&theirs), MPI_SUCCESS);
    }
    CHECK_INT(MPI_Comm_disconnect(&copy), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    return check_verdict();
}
