/* A grid of fewer processes than its parent has is another group: MPI_Comm_compare gives MPI_UNEQUAL, and the group has the members of the
 * grid. (MPICH 5.0.2 says MPI_CONGRUENT.)
 *
 * Covers: 8.5.1, 7.4.1
 * Ranks: 2 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm cart;
    MPI_Group group;
    int members = check_size - 1, result, size;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &members, &(int){0}, 0, &cart));
    if (cart != MPI_COMM_NULL) {
        CHECK_OK(MPI_Comm_group(cart, &group));
        CHECK_OK(MPI_Group_size(group, &size));
        CHECK_INT(size, members);
        CHECK_OK(MPI_Group_free(&group));
        CHECK_OK(MPI_Comm_compare(cart, MPI_COMM_WORLD, &result));
        CHECK_INT(result, MPI_UNEQUAL);
        CHECK_OK(MPI_Comm_free(&cart));
    }
    return check_end();
}
