/* Wrong arguments of groups, communicators, intercommunicators and attributes are found before anything is done, with the class and a text
 * that names argument and value. What only one member can know reaches the others: nobody waits for ever.
 *
 * Covers: 2.8, 7.3, 7.4, 7.6, 7.7.5, 9.4
 * Ranks: 2 4
 */
#include "check.h"
#include "told.h"

static int refuse_here;

static int copy(MPI_Comm comm, int keyval, void *state, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)state;
    *(void **)out = in;
    *flag = 1;
    return refuse_here ? MPI_ERR_INTERN : MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, side = me % 2, out[3], flag;
    void *value;
    MPI_Comm comm = MPI_COMM_NULL, half, inter;
    MPI_Group world, group, self;
    MPI_Win win;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Comm_group(MPI_COMM_SELF, &self));

    /* Groups. */
    int twice[2] = {1, 1}, beyond[1] = {n}, below[1] = {-1};
    int zero[1][3] = {{0, 1, 0}}, wrong_way[1][3] = {{0, 1, -1}}, outside[1][3] = {{0, n, 1}}, overlap[2][3] = {{0, 1, 1}, {1, 1, 1}};
    TOLD(MPI_Group_incl(world, 2, twice, &group), MPI_ERR_RANK, "MPI_Group_incl", "rank 1", "twice");
    TOLD(MPI_Group_incl(world, 1, beyond, &group), MPI_ERR_RANK, "outside");
    TOLD(MPI_Group_excl(world, 1, below, &group), MPI_ERR_RANK, "rank -1", "outside");
    TOLD(MPI_Group_range_incl(world, 1, zero, &group), MPI_ERR_ARG, "ranges[0]", "stride is 0");
    TOLD(MPI_Group_range_incl(world, 1, wrong_way, &group), MPI_ERR_ARG, "ranges[0]", "(0, 1, -1)");
    TOLD(MPI_Group_range_excl(world, 1, outside, &group), MPI_ERR_RANK, "outside");
    TOLD(MPI_Group_range_incl(world, 2, overlap, &group), MPI_ERR_RANK, "rank 1", "twice");
    TOLD(MPI_Group_range_incl(world, -1, overlap, &group), MPI_ERR_ARG, "-1");
    TOLD(MPI_Group_translate_ranks(world, 1, beyond, self, out), MPI_ERR_RANK, "outside");
    TOLD(MPI_Group_union(world, MPI_GROUP_NULL, &group), MPI_ERR_GROUP, "MPI_GROUP_NULL");
    group = MPI_GROUP_NULL;
    TOLD(MPI_Group_free(&group), MPI_ERR_GROUP, "MPI_GROUP_NULL");

    /* Construction. */
    TOLD(MPI_Comm_split(MPI_COMM_WORLD, -3, 0, &comm), MPI_ERR_ARG, "color", "-3");
    TOLD(MPI_Comm_split_type(MPI_COMM_WORLD, 12345, 0, MPI_INFO_NULL, &comm), MPI_ERR_ARG, "split_type", "12345");
    TOLD(MPI_Comm_create(MPI_COMM_SELF, world, &comm), MPI_ERR_GROUP, "group", "MPI_COMM_SELF");
    TOLD(MPI_Comm_create_group(MPI_COMM_WORLD, world, -2, &comm), MPI_ERR_TAG, "tag", "-2");
    TOLD(MPI_Comm_create_group(MPI_COMM_SELF, world, 0, &comm), MPI_ERR_GROUP, "group", "MPI_COMM_SELF");
    TOLD(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &comm), MPI_ERR_GROUP, "MPI_GROUP_NULL");
    TOLD(MPI_Comm_dup(MPI_COMM_NULL, &comm), MPI_ERR_COMM, "MPI_COMM_NULL");
    TOLD(MPI_Comm_dup_with_info(MPI_COMM_WORLD, (MPI_Info)MPI_COMM_WORLD, &comm), MPI_ERR_INFO, "MPI_Info");
    char large[MPI_MAX_STRINGTAG_LEN + 10];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    TOLD(MPI_Comm_create_from_group(world, large, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG, "stringtag");
    TOLD(MPI_Intercomm_create_from_groups(self, 0, world, 0, large, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_ERR_ARG, "stringtag");
    comm = MPI_COMM_WORLD;
    TOLD(MPI_Comm_free(&comm), MPI_ERR_COMM, "predefined");
    comm = MPI_COMM_SELF;
    TOLD(MPI_Comm_disconnect(&comm), MPI_ERR_COMM, "predefined");

    /* Intercommunicators. */
    TOLD(MPI_Comm_remote_size(MPI_COMM_WORLD, out), MPI_ERR_COMM, "intracommunicator");
    TOLD(MPI_Comm_remote_group(MPI_COMM_WORLD, &group), MPI_ERR_COMM, "intracommunicator");
    TOLD(MPI_Intercomm_merge(MPI_COMM_WORLD, 0, &comm), MPI_ERR_COMM, "intracommunicator");
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half));
    TOLD(MPI_Intercomm_create(half, 70, MPI_COMM_WORLD, !side, 0, &inter), MPI_ERR_RANK, "local_leader", "70");
    TOLD(MPI_Intercomm_create(half, MPI_ANY_SOURCE, MPI_COMM_WORLD, !side, 0, &inter), MPI_ERR_RANK, "local_leader");
    TOLD(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, MPI_ANY_TAG, &inter), MPI_ERR_TAG, "tag");
    /* The leader alone can know; its group learns it. */
    TOLD(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 70, 0, &inter), MPI_ERR_RANK, "remote_leader", "70");
    TOLD(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, MPI_ANY_SOURCE, 0, &inter), MPI_ERR_RANK, "remote_leader");
    TOLD(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side, 0, &inter), MPI_ERR_RANK, "remote_leader", "itself");
    TOLD(MPI_Intercomm_create(half, 0, MPI_COMM_NULL, 0, 0, &inter), MPI_ERR_COMM, "peer_comm", "MPI_COMM_NULL");
    TOLD(MPI_Intercomm_create(MPI_COMM_WORLD, 0, MPI_COMM_WORLD, 0, 0, &inter), MPI_ERR_RANK, "remote_leader", "itself");
    TOLD(MPI_Intercomm_create_from_groups(world, 0, world, 1, "w", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter), MPI_ERR_GROUP, "in common");
    TOLD(MPI_Intercomm_create_from_groups(self, 3, world, 1, "w", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter), MPI_ERR_RANK, "local_leader");
    CHECK_OK(MPI_Group_difference(world, self, &group));
    TOLD(MPI_Intercomm_create_from_groups(group, 0, self, 0, "w", MPI_INFO_NULL, MPI_ERRORS_RETURN, &inter), MPI_ERR_GROUP, "local_group");
    CHECK_OK(MPI_Group_free(&group));

    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !side, 0, &inter));
    int remote, one = 1;
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_OK(MPI_Comm_set_name(inter, "both"));
    TOLD(MPI_Send(&one, 1, MPI_INT, remote, 0, inter), MPI_ERR_RANK, "dest", "remote group of both");
    TOLD(MPI_Recv(&one, 1, MPI_INT, remote, 0, inter, MPI_STATUS_IGNORE), MPI_ERR_RANK, "source", "remote group of both");
    TOLD(MPI_Comm_create_group(inter, self, 0, &comm), MPI_ERR_COMM, "intercommunicator");
    TOLD(MPI_Intercomm_create(inter, 0, MPI_COMM_WORLD, !side, 0, &comm), MPI_ERR_COMM, "intercommunicator");
    TOLD(MPI_Win_create(out, 4, 1, MPI_INFO_NULL, inter, &win), MPI_ERR_COMM, "intercommunicator");
    TOLD(MPI_Comm_create(inter, world, &comm), MPI_ERR_GROUP, "group", "both");
    if (n > 2) TOLD(MPI_Intercomm_merge(inter, me / 2, &comm), MPI_ERR_ARG, "high");
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));

    /* A copy function that fails at one member: all members fail, and the next duplication works. */
    int keyval, stale;
    MPI_Request request;
    MPI_Comm parent;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    CHECK_OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    CHECK_OK(MPI_Comm_set_attr(parent, keyval, &me));
    for (int round = 0; round < 3; round++) {
        refuse_here = me == n - 1;
        if (refuse_here)
            TOLD(MPI_Comm_dup(parent, &comm), MPI_ERR_INTERN, "copy function");
        else
            TOLD(MPI_Comm_dup(parent, &comm), MPI_ERR_OTHER, "another member");
        if (refuse_here) {
            TOLD(MPI_Comm_idup(parent, &comm, &request), MPI_ERR_INTERN, "copy function");
        } else {
            CHECK_OK(MPI_Comm_idup(parent, &comm, &request));
            TOLD(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_OTHER, "another member");
        }
        refuse_here = 0;
        CHECK_OK(MPI_Comm_dup(parent, &comm));
        CHECK_OK(MPI_Barrier(comm));
        CHECK_OK(MPI_Comm_free(&comm));
    }
    stale = keyval;
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    CHECK_OK(MPI_Comm_delete_attr(parent, stale));
    TOLD(MPI_Comm_set_attr(parent, stale, &me), MPI_ERR_KEYVAL, "was freed");
    TOLD(MPI_Comm_get_attr(parent, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL, "MPI_KEYVAL_INVALID");
    CHECK_OK(MPI_Comm_free(&parent));
    CHECK_OK(MPI_Group_free(&self));
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
