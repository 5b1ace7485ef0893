/* MPI_Intercomm_create_from_groups and MPI_Comm_create_from_group: no parent communicator, a string tag; the error handler and the
 * hints given; empty groups make the call local; several at once told apart by their tags; also from a session alone.
 *
 * Covers: 7.4.2, 7.6.2, 11.3
 * Ranks: 2 3 5
 */
#include "inter.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, result;
    MPI_Session session;
    MPI_Group world, groups[2];
    MPI_Errhandler handler;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    for (int shape = 0; shape < SHAPES; shape++) {
        int side = side_of(me, n, shape), sides[2][64], counts[2];
        MPI_Comm inter, again, whole;
        for (int s = 0; s < 2; s++) {
            counts[s] = members_of(s, shape, sides[s]);
            CHECK_OK(MPI_Group_incl(world, counts[s], sides[s], &groups[s]));
        }
        int my_leader = counts[side] - 1, their_leader = counts[!side] - 1;
        CHECK_OK(MPI_Intercomm_create_from_groups(groups[side], my_leader, groups[!side], their_leader, "org.example.sides",
                                                  MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter));
        check_sides(inter, sides[side], counts[side], sides[!side], counts[!side]);
        check_traffic(inter, 1);
        CHECK_OK(MPI_Comm_get_errhandler(inter, &handler));
        CHECK(handler == MPI_ERRORS_RETURN);
        /* The same tag again, now in turn; the remote group is significant at the leader only. */
        int leads = sides[side][my_leader] == me;
        CHECK_OK(MPI_Intercomm_create_from_groups(groups[side], my_leader, leads ? groups[!side] : world, leads ? their_leader : -9,
                                                  "org.example.sides", MPI_INFO_NULL, MPI_ERRORS_RETURN, &again));
        CHECK_OK(MPI_Comm_compare(inter, again, &result));
        CHECK_INT(result, MPI_CONGRUENT);
        CHECK_OK(MPI_Intercomm_merge(again, side, &whole));
        CHECK_OK(MPI_Comm_free(&inter));
        CHECK_OK(MPI_Comm_free(&again));
        CHECK_OK(MPI_Barrier(whole));
        CHECK_OK(MPI_Comm_free(&whole));
        CHECK_OK(MPI_Group_free(&groups[0]));
        CHECK_OK(MPI_Group_free(&groups[1]));
    }

    MPI_Comm comm = MPI_COMM_WORLD;
    CHECK_OK(MPI_Intercomm_create_from_groups(MPI_GROUP_EMPTY, 0, world, 0, "t", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK(comm == MPI_COMM_NULL);
    comm = MPI_COMM_WORLD;
    CHECK_OK(MPI_Comm_create_from_group(MPI_GROUP_EMPTY, "t", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK(comm == MPI_COMM_NULL);

    /* Tags as long as can be, which differ in their last character only; hints. */
    char tag[MPI_MAX_STRINGTAG_LEN];
    CHECK(MPI_MAX_STRINGTAG_LEN >= 63);
    memset(tag, 'x', sizeof tag);
    tag[sizeof tag - 1] = 0;
    MPI_Comm comms[4];
    MPI_Info info, used;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    for (int i = 0; i < 4; i++) {
        tag[sizeof tag - 2] = (char)('a' + i);
        CHECK_OK(MPI_Comm_create_from_group(world, tag, i % 2 ? info : MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[i]));
    }
    for (int i = 3; i >= 0; i--) {
        int sum, flag, length = 10;
        char value[10];
        CHECK_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, comms[i]));
        CHECK_INT(sum, i * n);
        CHECK_OK(MPI_Comm_compare(MPI_COMM_WORLD, comms[i], &result));
        CHECK_INT(result, MPI_CONGRUENT);
        CHECK_OK(MPI_Comm_get_info(comms[i], &used));
        CHECK_OK(MPI_Info_get_string(used, "mpi_assert_no_any_tag", &length, value, &flag));
        if (flag) CHECK_STR(value, i % 2 ? "true" : "false");
        CHECK_OK(MPI_Info_free(&used));
        CHECK_OK(MPI_Comm_free(&comms[i]));
    }
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
