/* Process sets: mpi://WORLD and mpi://SELF are among those counted, names and indices stay, the length comes out as in MPI_Info_get_string,
 * mpi_size is the size of the group, and a set contains the caller. (MPICH 5.0 returns
 * the length it was given where it cuts a name.)
 *
 * Covers: 11.3.2, 11.3.3, 7.3.2
 * Ranks: 1 2 4
 */
#include "check.h"
#include "sessions.h"

static MPI_Session session;

static int size_of(const char *set)
{
    char value[32] = "";
    int flag = 0, length = sizeof value, size = -1, rank = -1;
    MPI_Info info;
    MPI_Group group;
    CHECK_INT(MPI_Session_get_pset_info(session, set, &info), MPI_SUCCESS);
    CHECK_INT(MPI_Info_get_string(info, "mpi_size", &length, value, &flag), MPI_SUCCESS);
    CHECK(flag);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Group_from_session_pset(session, set, &group), MPI_SUCCESS);
    CHECK_INT(MPI_Group_size(group, &size), MPI_SUCCESS);
    CHECK_INT(size, atoi(value));
    CHECK_INT(MPI_Group_rank(group, &rank), MPI_SUCCESS);
    CHECK(rank >= 0 && rank < size);
    CHECK_INT(MPI_Group_free(&group), MPI_SUCCESS);
    CHECK(group == MPI_GROUP_NULL);
    return size;
}

int main(void)
{
    int n = -1, again = -1, world = 0, own = 0;
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    MPI_Comm comm = comm_of_set(session, "mpi://WORLD", "psets");
    check_by(comm);
    /* The scheme and the authority of a URI are the same in small letters (RFC 3986, 6.2.2.1). */
    static const char *const small[] = {"mpi://self", "mpi://world"}, *const large[] = {"mpi://SELF", "mpi://WORLD"};
    for (int i = 0; i < 2; i++) {
        MPI_Group group;
        int size = -1;
        CHECK_INT(MPI_Group_from_session_pset(session, small[i], &group), MPI_SUCCESS);
        CHECK_INT(MPI_Group_size(group, &size), MPI_SUCCESS);
        CHECK_INT(size, size_of(large[i]));
        CHECK_INT(MPI_Group_free(&group), MPI_SUCCESS);
    }
    CHECK(MPI_MAX_PSET_NAME_LEN >= 63);
    CHECK_INT(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n), MPI_SUCCESS);
    CHECK(n >= 2);
    char(*names)[MPI_MAX_PSET_NAME_LEN + 1] = check_alloc((size_t)n * sizeof *names);
    for (int i = 0; i < n; i++) {
        int needed = 0, length = 0;
        CHECK_INT(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &needed, NULL), MPI_SUCCESS);
        CHECK(needed >= 2 && needed <= MPI_MAX_PSET_NAME_LEN + 1);
        length = needed;
        memset(names[i], 'x', sizeof names[i]);
        CHECK_INT(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, names[i]), MPI_SUCCESS);
        CHECK_INT(length, needed);
        CHECK_INT(strlen(names[i]) + 1, needed);
        CHECK_INT(names[i][needed], 'x');
        CHECK(strstr(names[i], "://") != NULL);
        char cut[8] = "zzzzzzz";
        length = 4;
        CHECK_INT(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, cut), MPI_SUCCESS);
        CHECK_INT(length, needed);
        CHECK_INT(strncmp(cut, names[i], 3), 0);
        CHECK_INT(cut[3], 0);
        CHECK_INT(cut[4], 'z');
        for (int k = 0; k < i; k++) CHECK(strcmp(names[k], names[i]) != 0);
        world += strcmp(names[i], "mpi://WORLD") == 0;
        own += strcmp(names[i], "mpi://SELF") == 0;
        CHECK(size_of(names[i]) <= check_size);
    }
    CHECK_INT(world, 1);
    CHECK_INT(own, 1);
    CHECK_INT(size_of("mpi://WORLD"), check_size);
    CHECK_INT(size_of("mpi://SELF"), 1);
    CHECK_INT(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &again), MPI_SUCCESS);
    CHECK(again >= n);
    for (int i = 0; i < n; i++) {
        char name[MPI_MAX_PSET_NAME_LEN + 1];
        int length = sizeof name;
        CHECK_INT(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name), MPI_SUCCESS);
        CHECK_STR(name, names[i]);
    }
    CHECK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, again + 1000, &n, NULL) != MPI_SUCCESS);
    free(names);
    CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
    return check_verdict();
}
