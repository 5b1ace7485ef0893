/* Predefined attributes: on every communicator, pointers to the value; fixed; never set, deleted or freed by programs.
 *
 * Covers: 9.1.2, 11.10.1, 11.10.3, 7.7.2, 12.2.6
 * Ranks: 1 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comms[3] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
    int *value, flag, seen = -1;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(MPI_Comm_get_attr(comms[i], MPI_TAG_UB, &value, &flag));
        if (i == 0) CHECK(flag);
        if (flag) {
            CHECK(*value >= 32767);
            CHECK(seen == -1 || *value == seen);
            seen = *value;
        }
        CHECK_OK(MPI_Comm_get_attr(comms[i], MPI_IO, &value, &flag));
        if (flag) CHECK(*value == MPI_ANY_SOURCE || *value == MPI_PROC_NULL || (*value >= 0 && *value < check_size));
        CHECK_OK(MPI_Comm_get_attr(comms[i], MPI_HOST, &value, &flag));
        if (flag) CHECK(*value == MPI_PROC_NULL || (*value >= 0 && *value < check_size));
        CHECK_OK(MPI_Comm_get_attr(comms[i], MPI_WTIME_IS_GLOBAL, &value, &flag));
        if (flag) CHECK(*value == 0 || *value == 1);
    }
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag));
    if (flag) CHECK(*value >= check_size);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag));
    if (flag) CHECK_INT(*value, 0);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag && *value >= MPI_ERR_LASTCODE);
    int before = *value, added;
    CHECK_OK(MPI_Add_error_class(&added));
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag && *value >= before && *value >= added);
    /* The largest tag works; a message shows it. */
    int out = 5, in = 0;
    CHECK_OK(MPI_Sendrecv(&out, 1, MPI_INT, 0, seen, &in, 1, MPI_INT, 0, seen, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_INT(in, 5);

    CHECK(MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, &out) != MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB) != MPI_SUCCESS);
    int key = MPI_TAG_UB;
    CHECK(MPI_Comm_free_keyval(&key) != MPI_SUCCESS);

    MPI_Win win;
    MPI_Aint *size;
    void *base;
    int *unit, *flavor, *model;
    char memory[40];
    CHECK_OK(MPI_Win_create(memory, 40, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == memory);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    CHECK(flag && *size == 40);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &unit, &flag));
    CHECK(flag && *unit == 8);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag));
    CHECK(flag && *flavor == MPI_WIN_FLAVOR_CREATE);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &model, &flag));
    CHECK(flag && (*model == MPI_WIN_UNIFIED || *model == MPI_WIN_SEPARATE));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Comm_free(&comms[2]));
    return check_end();
}
