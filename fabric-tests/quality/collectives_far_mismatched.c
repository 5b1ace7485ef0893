/* Short collective calls that do not match (section 6.1), of communicators that are on one node or two, with several ranks on each: whichever member
 * strays, those of its node find it, nobody waits for ever, and after a few calls that fail the communicator gives right results again.
 * (tests/algorithms.rs runs it on two nodes. Between nodes more may be wrong than messages tell, so that there is nothing to check where
 * a rank is alone on its node.)
 *
 * Covers: 6.1
 * Ranks: 4 5
 */
#include "check.h"

/* Calls until all succeed: calls that others had begun before they knew may fail. All agree by messages that they have. */
static void works_again(MPI_Comm comm)
{
    int worked = 0;
    for (int tries = 0; tries < 20 && !worked; tries++) {
        int me = check_rank, sum = -1;
        int here = MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS;
        if (here) CHECK_INT(sum, check_size * (check_size - 1) / 2);
        CHECK_OK(MPI_Allreduce(&here, &worked, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
    }
    CHECK(worked);
    for (int i = 0; i < 30; i++) {
        int root = i % check_size, value = check_rank == root ? i : -1, most = -1;
        CHECK_OK(MPI_Bcast(&value, 1, MPI_INT, root, comm));
        CHECK_INT(value, i);
        value = i + check_rank;
        CHECK_OK(MPI_Reduce(&value, &most, 1, MPI_INT, MPI_MAX, root, comm));
        CHECK_INT(most, check_rank == root ? i + check_size - 1 : -1);
        CHECK_OK(MPI_Allreduce(&value, &most, 1, MPI_INT, MPI_MAX, comm));
        CHECK_INT(most, i + check_size - 1);
        CHECK_OK(MPI_Barrier(comm));
    }
}

/* Whether it is as the head says. */
static int is_placed_so(void)
{
    MPI_Comm node;
    int place, mates, firsts[2], sums[2];
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    CHECK_OK(MPI_Comm_rank(node, &place));
    CHECK_OK(MPI_Comm_size(node, &mates));
    firsts[0] = place == 0;
    firsts[1] = mates == 1;
    CHECK_OK(MPI_Allreduce(firsts, sums, 2, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_OK(MPI_Comm_free(&node));
    return sums[0] <= 2 && sums[1] == 0;
}

int main(int argc, char **argv)
{
    int in[30] = {0}, out[30];
    check_start(&argc, &argv);
    if (!is_placed_so()) return check_end();
    for (int stray = 0; stray < check_size; stray++) {
        for (int kind = 0; kind < 4; kind++) {
            MPI_Comm comm;
            int code = MPI_SUCCESS, strays = check_rank == stray;
            CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
            CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
            for (int i = 0; i < 4; i++) CHECK_OK(MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm));
            /* Other lengths, where all wait for all, down from the root and up to it; another operation. */
            if (kind == 0) code = MPI_Allreduce(in, out, strays ? 2 : 3, MPI_INT, MPI_SUM, comm);
            if (kind == 1) code = MPI_Bcast(in, strays ? 2 : 3, MPI_INT, 0, comm);
            if (kind == 2) code = MPI_Reduce(in, out, strays ? 2 : 3, MPI_INT, MPI_SUM, check_size - 1, comm);
            if (kind == 3) code = strays ? MPI_Barrier(comm) : MPI_Allreduce(in, out, 3, MPI_INT, MPI_SUM, comm);
            if (code != MPI_SUCCESS) CHECK_INT(check_class_of(code), MPI_ERR_TRUNCATE);
            if (kind == 0) CHECK(code != MPI_SUCCESS);
            works_again(comm);
            CHECK_OK(MPI_Comm_free(&comm));
        }
    }
    return check_end();
}
