/* MPI_Intercomm_merge: order by `high`, any order but one and the same for all when both sides give the same; the error handler
 * is that of the intercommunicator at each process; a merge of a merge.
 *
 * Covers: 7.6.2 [MPICH 5 gives the merged communicator another error handler]
 * Ranks: 2 3 5 8
 */
#include "inter.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size;
    for (int shape = 0; shape < SHAPES; shape++) {
        int side = side_of(me, n, shape), sides[2][64], counts[2];
        counts[0] = members_of(0, shape, sides[0]);
        counts[1] = members_of(1, shape, sides[1]);
        MPI_Comm inter = join_sides(shape, 0, 1);
        for (int high = 0; high < 4; high++) {
            int mine = side ? high / 2 : high % 2, all[64], rank, size, flag;
            MPI_Comm whole;
            /* Any nonzero value is true. */
            CHECK_OK(MPI_Intercomm_merge(inter, mine ? 40 + high : 0, &whole));
            CHECK_OK(MPI_Comm_test_inter(whole, &flag));
            CHECK_INT(flag, 0);
            CHECK_OK(MPI_Comm_size(whole, &size));
            CHECK_OK(MPI_Comm_rank(whole, &rank));
            CHECK_INT(size, n);
            CHECK_OK(MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, whole));
            CHECK_INT(all[rank], me);
            /* high = 1: side 0 gave true, so side 1 comes first. */
            int first = high == 1 ? 1 : high == 2 ? 0 : side_of(all[0], n, shape);
            for (int i = 0; i < counts[first]; i++) CHECK_INT(all[i], sides[first][i]);
            for (int i = 0; i < counts[!first]; i++) CHECK_INT(all[counts[first] + i], sides[!first][i]);
            CHECK_OK(MPI_Comm_free(&whole));
        }
        MPI_Comm whole;
        MPI_Errhandler handler;
        CHECK_OK(MPI_Comm_set_errhandler(inter, side ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL));
        CHECK_OK(MPI_Intercomm_merge(inter, side, &whole));
        CHECK_OK(MPI_Comm_get_errhandler(whole, &handler));
        CHECK(handler == (side ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL));
        CHECK_OK(MPI_Comm_free(&inter));
        int sum = 0;
        CHECK_OK(MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, whole));
        CHECK_INT(sum, n * (n - 1) / 2);
        CHECK_OK(MPI_Comm_free(&whole));
    }
    /* Built up from single processes (the rationale of MPI_Comm_create_group). */
    MPI_Comm built;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &built));
    for (int width = 1; width < n; width *= 2) {
        int block = me / width, partner = block ^ 1, lead = partner * width;
        if (lead >= n) continue;
        MPI_Comm inter, both;
        CHECK_OK(MPI_Intercomm_create(built, 0, MPI_COMM_WORLD, lead, width, &inter));
        CHECK_OK(MPI_Intercomm_merge(inter, block % 2, &both));
        CHECK_OK(MPI_Comm_free(&inter));
        CHECK_OK(MPI_Comm_free(&built));
        built = both;
    }
    int result;
    CHECK_OK(MPI_Comm_compare(built, MPI_COMM_WORLD, &result));
    CHECK_INT(result, MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_free(&built));
    return check_end();
}
