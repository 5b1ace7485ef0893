/* Groups: of a communicator, by inclusion and exclusion, set operations, comparison, translation of ranks.
 *
 * Covers: 7.2.1, 7.3.1, 7.3.2, 7.3.3
 * Ranks: 1 2 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, size, rank, result, ranks[16], translated[16];
    MPI_Group world, self, some, rest, all, none;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Comm_group(MPI_COMM_SELF, &self));
    CHECK_OK(MPI_Group_size(world, &size));
    CHECK_OK(MPI_Group_rank(world, &rank));
    CHECK_INT(size, n);
    CHECK_INT(rank, check_rank);
    /* Every second rank, backwards. */
    int count = 0;
    for (int r = n - 1; r >= 0; r -= 2) ranks[count++] = r;
    CHECK_OK(MPI_Group_incl(world, count, ranks, &some));
    CHECK_OK(MPI_Group_excl(world, count, ranks, &rest));
    CHECK_OK(MPI_Group_size(some, &size));
    CHECK_INT(size, count);
    CHECK_OK(MPI_Group_rank(some, &rank));
    CHECK_INT(rank, (n - 1 - check_rank) % 2 ? MPI_UNDEFINED : (n - 1 - check_rank) / 2);
    CHECK_OK(MPI_Group_rank(rest, &rank));
    CHECK_INT(rank, (n - 1 - check_rank) % 2 ? check_rank / 2 : MPI_UNDEFINED);
    for (int r = 0; r < n; r++) ranks[r] = r;
    ranks[n] = MPI_PROC_NULL;
    CHECK_OK(MPI_Group_translate_ranks(world, n + 1, ranks, some, translated));
    for (int r = 0; r < n; r++) CHECK_INT(translated[r], (n - 1 - r) % 2 ? MPI_UNDEFINED : (n - 1 - r) / 2);
    CHECK_INT(translated[n], MPI_PROC_NULL);
    CHECK_OK(MPI_Group_union(some, rest, &all));
    CHECK_OK(MPI_Group_compare(all, world, &result));
    CHECK_INT(result, n == 1 ? MPI_IDENT : MPI_SIMILAR);
    CHECK_OK(MPI_Group_intersection(some, rest, &none));
    CHECK(none == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_compare(none, MPI_GROUP_EMPTY, &result));
    CHECK_INT(result, MPI_IDENT);
    MPI_Group difference;
    CHECK_OK(MPI_Group_difference(world, some, &difference));
    CHECK_OK(MPI_Group_compare(difference, rest, &result));
    CHECK_INT(result, MPI_IDENT);
    CHECK_OK(MPI_Group_incl(world, 0, ranks, &none));
    CHECK(none == MPI_GROUP_EMPTY);
    if (difference != MPI_GROUP_EMPTY) CHECK_OK(MPI_Group_free(&difference));
    CHECK_OK(MPI_Group_free(&all));
    CHECK_OK(MPI_Group_free(&some));
    if (rest != MPI_GROUP_EMPTY) CHECK_OK(MPI_Group_free(&rest));
    CHECK_OK(MPI_Group_free(&self));
    CHECK_OK(MPI_Group_free(&world));
    CHECK(world == MPI_GROUP_NULL);
    return check_end();
}
