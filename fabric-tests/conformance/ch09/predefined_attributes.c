/* The attributes of the environment on MPI_COMM_WORLD are the same at each look, the same at all processes where the standard says so,
 * and cannot be set, deleted, nor their keys freed. (The diagnosis is left open by the standard.)
 *
 * Covers: 9.1.2, 11.10.1, 7.7.2
 * Ranks: 1 2 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    static const int keys[] = {MPI_TAG_UB, MPI_HOST, MPI_IO, MPI_WTIME_IS_GLOBAL, MPI_APPNUM, MPI_UNIVERSE_SIZE, MPI_LASTUSEDCODE};
    check_start(&argc, &argv);
    for (unsigned i = 0; i < sizeof keys / sizeof *keys; i++) {
        int *first = NULL, *again = NULL, flag = -1, value = 5, key = keys[i];
        CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, keys[i], &first, &flag));
        int before = flag ? *first : 0, known = flag;
        CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, keys[i], &value) != MPI_SUCCESS);
        CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, keys[i]) != MPI_SUCCESS);
        CHECK(MPI_Comm_free_keyval(&key) != MPI_SUCCESS);
        CHECK_INT(key, keys[i]);
        CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, keys[i], &again, &flag));
        CHECK_INT(flag, known);
        if (flag) CHECK_INT(*again, before);
        if (keys[i] == MPI_TAG_UB || keys[i] == MPI_WTIME_IS_GLOBAL || keys[i] == MPI_UNIVERSE_SIZE) {
            int least = 0, most = 0;
            CHECK_OK(MPI_Allreduce(&before, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
            CHECK_OK(MPI_Allreduce(&before, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
            CHECK_INT(least, most);
        }
    }
    /* The tag bound holds. */
    int *bound = NULL, flag = 0, value = 1;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag));
    CHECK_OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, check_rank, *bound, check_rank, *bound, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    return check_end();
}
