/* MPI_Finalize first frees MPI_COMM_SELF: delete callbacks of its attributes run in reverse order of setting, while MPI still
 * works and MPI_Finalized says false.
 *
 * Covers: 11.2.4, 7.7.2
 * Ranks: 1 2
 */
#include "check.h"

static int order[3], called;

static int forget(MPI_Comm comm, int keyval, void *value, void *extra)
{
    int flag = 1, size = 0, sum = 0, one = 1;
    (void)keyval;
    CHECK(comm == MPI_COMM_SELF);
    CHECK(extra == &called);
    CHECK_OK(MPI_Finalized(&flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_INT(sum, size);
    if (called < 3) order[called] = *(int *)value;
    called++;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int numbers[3] = {10, 11, 12};
    int keyvals[3];
    for (int i = 0; i < 3; i++)
        CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &keyvals[i], &called));
    /* Not in the order of the keys. */
    static const int sequence[3] = {1, 2, 0};
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_set_attr(MPI_COMM_SELF, keyvals[sequence[i]], &numbers[sequence[i]]));
    /* Keys in use are given up; their functions still run. */
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_free_keyval(&keyvals[i]));
    MPI_Finalize();
    CHECK_INT(called, 3);
    CHECK_INT(order[0], 10);
    CHECK_INT(order[1], 12);
    CHECK_INT(order[2], 11);
    return check_verdict();
}
