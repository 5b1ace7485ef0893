/* Two processes that get the same name of a process set have the same set or disjoint ones, and the members of a set can make a
 * communicator of it.
 *
 * Covers: 11.3.2, 11.3.3, 7.4.2
 * Ranks: 1 4
 */
#include "check.h"
#include "sessions.h"

int main(void)
{
    MPI_Session session;
    int n = -1;
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    MPI_Comm world = comm_of_set(session, "mpi://WORLD", "all");
    check_by(world);
    MPI_Group all;
    CHECK_INT(MPI_Comm_group(world, &all), MPI_SUCCESS);
    CHECK_INT(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n), MPI_SUCCESS);
    for (int i = 0; i < n; i++) {
        char name[MPI_MAX_PSET_NAME_LEN + 1];
        int length = sizeof name, size = 0, mine[64] = {0}, places[64], ranks[64], theirs[64 * 4];
        MPI_Group group;
        CHECK_INT(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name), MPI_SUCCESS);
        CHECK_INT(MPI_Group_from_session_pset(session, name, &group), MPI_SUCCESS);
        CHECK_INT(MPI_Group_size(group, &size), MPI_SUCCESS);
        for (int k = 0; k < size && k < 64; k++) places[k] = k;
        CHECK_INT(MPI_Group_translate_ranks(group, size, places, all, ranks), MPI_SUCCESS);
        for (int k = 0; k < size; k++)
            if (ranks[k] >= 0 && ranks[k] < 64) mine[ranks[k]] = 1;
        CHECK_INT(MPI_Allgather(mine, 64, MPI_INT, theirs, 64, MPI_INT, world), MPI_SUCCESS);
        for (int k = 0; k < check_size; k++)
            if (mine[k]) CHECK_INT(memcmp(mine, theirs + 64 * k, sizeof mine), 0);
        MPI_Comm comm;
        CHECK_INT(MPI_Comm_create_from_group(group, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_SUCCESS);
        use_comm(comm);
        int got = 0;
        CHECK_INT(MPI_Comm_size(comm, &got), MPI_SUCCESS);
        CHECK_INT(got, size);
        CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
        CHECK_INT(MPI_Group_free(&group), MPI_SUCCESS);
    }
    CHECK_INT(MPI_Group_free(&all), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_disconnect(&world), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    return check_verdict();
}
