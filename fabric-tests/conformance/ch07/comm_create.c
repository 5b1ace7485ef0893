/* MPI_Comm_create with one group, disjoint groups, reordered groups, the empty group; MPI_Comm_create_group by members only, with
 * tags apart from those of messages, several in turn with one tag, and a local call by others.
 *
 * Covers: 7.4.2, 7.2.2
 * Ranks: 1 2 3 5 8
 */
#include "check.h"

static void check_members(MPI_Comm comm, const int *members, int count)
{
    int size, rank, all[64];
    CHECK(comm != MPI_COMM_NULL);
    if (comm == MPI_COMM_NULL) return;
    CHECK_OK(MPI_Comm_size(comm, &size));
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    CHECK_INT(size, count);
    CHECK(rank < count && members[rank] == check_rank);
    CHECK_OK(MPI_Allgather(&check_rank, 1, MPI_INT, all, 1, MPI_INT, comm));
    for (int r = 0; r < count; r++) CHECK_INT(all[r], members[r]);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, members[64], keyval, flag, length;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm comm, parent;
    MPI_Group world, group;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    CHECK_OK(MPI_Comm_set_name(parent, "parent"));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
    CHECK_OK(MPI_Comm_set_attr(parent, keyval, &me));
    CHECK_OK(MPI_Comm_group(parent, &world));

    /* Everybody, backwards; nothing cached goes along, the error handler does. */
    for (int r = 0; r < n; r++) members[r] = n - 1 - r;
    CHECK_OK(MPI_Group_incl(world, n, members, &group));
    CHECK_OK(MPI_Comm_create(parent, group, &comm));
    check_members(comm, members, n);
    void *value;
    CHECK_OK(MPI_Comm_get_attr(comm, keyval, &value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Comm_get_name(comm, name, &length));
    CHECK_INT(length, 0);
    CHECK_CLASS(MPI_Send(&me, 1, MPI_INT, n, 0, comm), MPI_ERR_RANK);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Group_free(&group));

    /* One process; the others give the same group and get nothing. */
    int last = n - 1;
    CHECK_OK(MPI_Group_incl(world, 1, &last, &group));
    CHECK_OK(MPI_Comm_create(parent, group, &comm));
    if (me == last) {
        check_members(comm, &last, 1);
        CHECK_OK(MPI_Comm_free(&comm));
    } else {
        CHECK(comm == MPI_COMM_NULL);
    }
    CHECK_OK(MPI_Group_free(&group));

    /* Disjoint groups by a remainder; those of the last one give the empty group. */
    int count = 0;
    for (int r = me % 3; r < n; r += 3) members[count++] = r;
    CHECK_OK(MPI_Group_incl(world, count, members, &group));
    CHECK_OK(MPI_Comm_create(parent, me % 3 == 2 ? MPI_GROUP_EMPTY : group, &comm));
    if (me % 3 == 2) {
        CHECK(comm == MPI_COMM_NULL);
    } else {
        check_members(comm, members, count);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    CHECK_OK(MPI_Group_free(&group));

    /* By the members only, in overlapping groups one after another, all with tag 5, while a message with tag 5 waits. */
    MPI_Request request;
    int got = -1;
    CHECK_OK(MPI_Isend(&me, 1, MPI_INT, (me + 1) % n, 5, parent, &request));
    for (int round = 0; round < 6; round++) {
        count = 0;
        for (int r = 0; r < n; r++)
            if ((r * 5 + round * 3) % 4 != 1) members[count++] = r;
        /* Another order each time. */
        for (int i = 0; i < round && count > 1; i++) {
            int first = members[0];
            memmove(members, members + 1, sizeof(int) * (size_t)(count - 1));
            members[count - 1] = first;
        }
        if ((me * 5 + round * 3) % 4 == 1) continue;
        CHECK_OK(MPI_Group_incl(world, count, members, &group));
        CHECK_OK(MPI_Comm_create_group(parent, group, 5, &comm));
        check_members(comm, members, count);
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Group_free(&group));
    }
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, (me + n - 1) % n, 5, parent, MPI_STATUS_IGNORE));
    CHECK_INT(got, (me + n - 1) % n);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    /* Local for those who are no members: rank 0 calls alone. */
    if (me == 0) {
        CHECK_OK(MPI_Comm_create_group(parent, MPI_GROUP_EMPTY, 0, &comm));
        CHECK(comm == MPI_COMM_NULL);
        if (n > 1) {
            CHECK_OK(MPI_Group_excl(world, 1, &me, &group));
            CHECK_OK(MPI_Comm_create_group(parent, group, 0, &comm));
            CHECK(comm == MPI_COMM_NULL);
            CHECK_OK(MPI_Group_free(&group));
        }
        CHECK_OK(MPI_Group_incl(world, 1, &me, &group));
        int *tag_ub;
        CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_ub, &flag));
        CHECK_OK(MPI_Comm_create_group(parent, group, *tag_ub, &comm));
        check_members(comm, &me, 1);
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Group_free(&group));
    }
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Comm_free(&parent));
    return check_end();
}
