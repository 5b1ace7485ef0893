/* Constructors on intercommunicators: dup, dup_with_info, idup, create, split, with attributes, names and error handlers; colors
 * of one side only and groups that leave a side empty give MPI_COMM_NULL; a pair of clients and servers (example 7.2).
 *
 * Covers: 7.4.2, 7.6, 7.6.2, 7.7.2, 7.8
 * Ranks: 2 3 5 8
 */
#include "inter.h"

static int color_of(int local_rank, int side, int kind)
{
    switch (kind) {
    case 0: return 4;
    case 1: return local_rank % 2;
    case 2: return side ? 1 : local_rank % 2;
    case 3: return local_rank == 0 ? 3 : MPI_UNDEFINED;
    case 4: return side;
    default: return local_rank;
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, result, flag, length, keyval;
    char name[MPI_MAX_OBJECT_NAME];
    for (int shape = 0; shape < SHAPES; shape++) {
        int side = side_of(me, n, shape), sides[2][64], counts[2];
        counts[0] = members_of(0, shape, sides[0]);
        counts[1] = members_of(1, shape, sides[1]);
        MPI_Comm inter = join_sides(shape, 0, 1), twin;
        int rank;
        CHECK_OK(MPI_Comm_rank(inter, &rank));

        /* Duplicates. */
        void *value = NULL;
        CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));
        CHECK_OK(MPI_Comm_set_attr(inter, keyval, &me));
        CHECK_OK(MPI_Comm_set_name(inter, "two sides"));
        CHECK_OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
        for (int how = 0; how < 3; how++) {
            MPI_Request request;
            MPI_Errhandler handler;
            if (how == 0) CHECK_OK(MPI_Comm_dup(inter, &twin));
            if (how == 1) CHECK_OK(MPI_Comm_dup_with_info(inter, MPI_INFO_NULL, &twin));
            if (how == 2) {
                CHECK_OK(MPI_Comm_idup(inter, &twin, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
            check_sides(twin, sides[side], counts[side], sides[!side], counts[!side]);
            CHECK_OK(MPI_Comm_compare(inter, twin, &result));
            CHECK_INT(result, MPI_CONGRUENT);
            CHECK_OK(MPI_Comm_get_attr(twin, keyval, &value, &flag));
            CHECK(flag && value == &me);
            CHECK_OK(MPI_Comm_get_name(twin, name, &length));
            CHECK_INT(length, 0);
            CHECK_OK(MPI_Comm_get_errhandler(twin, &handler));
            CHECK(handler == MPI_ERRORS_RETURN);
            check_traffic(twin, how);
            CHECK_OK(MPI_Comm_free(&twin));
        }

        /* Splits: members by key and old rank on each side. */
        for (int kind = 0; kind < 6; kind++)
            for (int backwards = 0; backwards < 2; backwards++) {
                int color = color_of(rank, side, kind), parts[2][64], in[2] = {0, 0};
                CHECK_OK(MPI_Comm_split(inter, color, backwards ? -rank : 0, &twin));
                for (int s = 0; s < 2; s++)
                    for (int i = 0; i < counts[s]; i++) {
                        int r = backwards ? counts[s] - 1 - i : i;
                        if (color_of(r, s, kind) == color) parts[s][in[s]++] = sides[s][r];
                    }
                if (color == MPI_UNDEFINED || in[0] == 0 || in[1] == 0) {
                    CHECK(twin == MPI_COMM_NULL);
                    continue;
                }
                CHECK(twin != MPI_COMM_NULL);
                if (twin == MPI_COMM_NULL) continue;
                check_sides(twin, parts[side], in[side], parts[!side], in[!side]);
                check_traffic(twin, kind);
                CHECK_OK(MPI_Comm_compare(inter, twin, &result));
                int all = in[0] == counts[0] && in[1] == counts[1];
                int order = !backwards || (counts[0] == 1 && counts[1] == 1);
                CHECK_INT(result, !all ? MPI_UNEQUAL : order ? MPI_CONGRUENT : MPI_SIMILAR);
                CHECK_OK(MPI_Comm_free(&twin));
            }

        /* MPI_Comm_create: the last of each side; then a side leaves none (example 7.1). */
        MPI_Group local, some;
        CHECK_OK(MPI_Comm_group(inter, &local));
        int last = counts[side] - 1;
        CHECK_OK(MPI_Group_incl(local, 1, &last, &some));
        CHECK_OK(MPI_Comm_create(inter, some, &twin));
        if (rank == last) {
            check_sides(twin, sides[side] + last, 1, sides[!side] + counts[!side] - 1, 1);
            check_traffic(twin, 0);
            CHECK_OK(MPI_Comm_free(&twin));
        } else {
            CHECK(twin == MPI_COMM_NULL);
        }
        CHECK_OK(MPI_Comm_create(inter, side ? MPI_GROUP_EMPTY : local, &twin));
        CHECK(twin == MPI_COMM_NULL);
        CHECK_OK(MPI_Comm_create(inter, side ? some : local, &twin));
        if (side == 0 || rank == last) {
            check_sides(twin, side ? sides[1] + last : sides[0], side ? 1 : counts[0],
                        side ? sides[0] : sides[1] + counts[1] - 1, side ? counts[0] : 1);
            CHECK_OK(MPI_Comm_free(&twin));
        } else {
            CHECK(twin == MPI_COMM_NULL);
        }
        CHECK_OK(MPI_Group_free(&some));
        CHECK_OK(MPI_Group_free(&local));

        /* Clients and servers: example 7.2. */
        CHECK_OK(MPI_Comm_split(inter, side == 0 ? rank % counts[1] : rank, side == 0 ? rank : 0, &twin));
        if (side == 0) {
            int servers;
            CHECK_OK(MPI_Comm_remote_size(twin, &servers));
            CHECK_INT(servers, 1);
        } else if (rank >= counts[0]) {
            CHECK(twin == MPI_COMM_NULL);
        }
        if (twin != MPI_COMM_NULL) {
            check_traffic(twin, 3);
            CHECK_OK(MPI_Comm_disconnect(&twin));
            CHECK(twin == MPI_COMM_NULL);
        }
        CHECK_OK(MPI_Comm_delete_attr(inter, keyval));
        CHECK_OK(MPI_Comm_free_keyval(&keyval));
        CHECK_OK(MPI_Comm_free(&inter));
    }
    return check_end();
}
