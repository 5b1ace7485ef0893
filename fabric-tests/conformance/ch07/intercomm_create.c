/* MPI_Intercomm_create: groups, ranks, sizes; point-to-point in all its forms addresses the remote group, on a channel of its
 * own; comparison; several at once between different pairs; peer communicator and remote leader significant at leaders only;
 * user messages on the peer communicator with the same tag stay apart.
 *
 * Covers: 7.6, 7.6.1, 7.6.2, 7.4.1, 6.3
 * Ranks: 2 3 5 8
 */
#include "inter.h"

static void every_form(MPI_Comm inter)
{
    int rank, remote;
    CHECK_OK(MPI_Comm_rank(inter, &rank));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    int got = -1, value = 500 + rank, flag = 0;
    MPI_Status status;
    MPI_Message message;
    MPI_Request requests[2];
    /* Rank 0 of each side with rank 0 of the other: both ways, by probe, wildcard, matched probe, sendrecv, persistent. */
    if (rank == 0) {
        CHECK_OK(MPI_Isend(&value, 1, MPI_INT, 0, 1, inter, &requests[0]));
        CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
        CHECK_STATUS(status, 0, 1, MPI_INT, 1);
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &status));
        CHECK_STATUS(status, 0, 1, MPI_INT, 1);
        CHECK_INT(got, 500);
        CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Ssend_init(&value, 1, MPI_INT, 0, 2, inter, &requests[0]));
        CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, 0, 2, inter, &requests[1]));
        for (int i = 0; i < 3; i++) {
            got = -1;
            CHECK_OK(MPI_Startall(2, requests));
            CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
            CHECK_INT(got, 500);
        }
        CHECK_OK(MPI_Request_free(&requests[0]));
        CHECK_OK(MPI_Request_free(&requests[1]));
        got = -1;
        CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, 0, 3, &got, 1, MPI_INT, 0, 3, inter, &status));
        CHECK_INT(got, 500);
        CHECK_OK(MPI_Isend(&value, 1, MPI_INT, 0, 4, inter, &requests[0]));
        CHECK_OK(MPI_Mprobe(0, 4, inter, &message, &status));
        CHECK_OK(MPI_Mrecv(&got, 1, MPI_INT, &message, &status));
        CHECK_STATUS(status, 0, 4, MPI_INT, 1);
        CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, inter, &flag, &status));
        CHECK_INT(flag, 0);
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    /* Everybody sends to the last of the other side: sources are ranks of the sender in its own group. */
    CHECK_OK(MPI_Isend(&value, 1, MPI_INT, remote - 1, 6, inter, &requests[0]));
    int size;
    CHECK_OK(MPI_Comm_size(inter, &size));
    if (rank == size - 1) {
        int seen = 0;
        for (int r = 0; r < remote; r++) {
            CHECK_OK(MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 6, inter, &status));
            CHECK_INT(got, 500 + status.MPI_SOURCE);
            seen |= 1 << status.MPI_SOURCE;
        }
        CHECK_INT(seen, (1 << remote) - 1);
    }
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 0, inter));
    CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 0, inter, &status));
    CHECK_INT(status.MPI_SOURCE, MPI_PROC_NULL);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, result, flag;
    for (int shape = 0; shape < SHAPES; shape++)
        for (int leader = 0; leader < 2; leader++) {
            int mine[64], theirs[64], side = side_of(me, n, shape);
            int ours = members_of(side, shape, mine), others = members_of(!side, shape, theirs);
            MPI_Comm inter = join_sides(shape, leader, 9), again;
            check_sides(inter, mine, ours, theirs, others);
            check_traffic(inter, 77);
            every_form(inter);
            MPI_Request request;
            CHECK_OK(MPI_Barrier(inter));
            CHECK_OK(MPI_Ibarrier(inter, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Comm_compare(inter, inter, &result));
            CHECK_INT(result, MPI_IDENT);
            CHECK_OK(MPI_Comm_compare(inter, MPI_COMM_WORLD, &result));
            CHECK_INT(result, MPI_UNEQUAL);
            again = join_sides(shape, 1 - leader, 9);
            CHECK_OK(MPI_Comm_compare(inter, again, &result));
            CHECK_INT(result, MPI_CONGRUENT);
            CHECK_OK(MPI_Comm_free(&again));
            CHECK(again == MPI_COMM_NULL);
            CHECK_OK(MPI_Comm_free(&inter));
            CHECK(inter == MPI_COMM_NULL);
        }
    CHECK_OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
    CHECK_INT(flag, 0);

    /* The leaders' talk on the peer communicator is none of the user's business, and the other way round. */
    int side = me % 2, got = -1, out = 1000 + me;
    MPI_Request request;
    MPI_Comm local, inter;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &local));
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, !side, 3, &inter));
    CHECK_OK(MPI_Send(&out, 1, MPI_INT, (me + 1) % n, 3, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(got, 1000 + (me + n - 1) % n);
    check_traffic(inter, 0);
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&local));

    /* A ring of intercommunicators: each rank is alone on its side, twice at a time (7.6.3). */
    if (n >= 3) {
        MPI_Comm to_next, to_before;
        int next = (me + 1) % n, before = (me + n - 1) % n;
        if (me == 0) {
            CHECK_OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, next, 20, &to_next));
            CHECK_OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, before, 20 + before, &to_before));
        } else {
            CHECK_OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, before, 20 + before, &to_before));
            CHECK_OK(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_WORLD, next, 20 + me, &to_next));
        }
        CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, 0, to_before, &request));
        CHECK_OK(MPI_Send(&me, 1, MPI_INT, 0, 0, to_next));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_INT(got, before);
        CHECK_OK(MPI_Comm_free(&to_next));
        CHECK_OK(MPI_Comm_free(&to_before));
    }
    return check_end();
}
