/* What hangs on a window: predefined and own attributes, name, group, hints, error handler.
 *
 * Covers: 12.2.6, 12.2.7, 7.7.3, 7.8, 9.3.2, 12.6.1
 * Ranks: 1 2
 */
#include "check.h"

static int deleted, handled;

static int delete_it(MPI_Win win, int key, void *value, void *extra)
{
    (void)win, (void)key;
    deleted += *(int *)value + *(int *)extra;
    return MPI_SUCCESS;
}

static void handle(MPI_Win *win, int *code, ...)
{
    (void)win;
    handled = check_class_of(*code);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Win win;
    MPI_Comm comm;
    MPI_Group all, members;
    MPI_Info info;
    MPI_Errhandler handler, got;
    char name[MPI_MAX_OBJECT_NAME], memory[100], value[64];
    void *base;
    MPI_Aint *size;
    int *number, key, flag, length, comparison, seven = 7, thirty = 30;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "no_locks", "true"));
    CHECK_OK(MPI_Info_set(info, "unknown_key", "x"));
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 4, info, comm, &win));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &base, &flag));
    CHECK(flag && base == memory);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag));
    CHECK(flag && *size == sizeof memory);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &number, &flag));
    CHECK(flag && *number == 4);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &number, &flag));
    CHECK(flag && *number == MPI_WIN_FLAVOR_CREATE);
    CHECK_OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &number, &flag));
    CHECK(flag && (*number == MPI_WIN_UNIFIED || *number == MPI_WIN_SEPARATE));
    CHECK_OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete_it, &key, &seven));
    CHECK_OK(MPI_Win_get_attr(win, key, &number, &flag));
    CHECK(!flag);
    CHECK_OK(MPI_Win_set_attr(win, key, &thirty));
    CHECK_OK(MPI_Win_get_attr(win, key, &number, &flag));
    CHECK(flag && number == &thirty);
    CHECK_OK(MPI_Win_delete_attr(win, key));
    CHECK_INT(deleted, 37);
    CHECK_OK(MPI_Win_set_attr(win, key, &thirty));
    CHECK_OK(MPI_Win_free_keyval(&key));
    CHECK_OK(MPI_Win_get_name(win, name, &length));
    CHECK_INT(length, 0);
    CHECK_OK(MPI_Win_set_name(win, "a window"));
    CHECK_OK(MPI_Win_get_name(win, name, &length));
    CHECK_STR(name, "a window");
    CHECK_OK(MPI_Win_get_group(win, &members));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    CHECK_OK(MPI_Group_compare(all, members, &comparison));
    CHECK_INT(comparison, MPI_IDENT);
    CHECK_OK(MPI_Group_free(&all));
    CHECK_OK(MPI_Group_free(&members));
    CHECK_OK(MPI_Win_get_info(win, &info));
    length = sizeof value;
    CHECK_OK(MPI_Info_get_string(info, "no_locks", &length, value, &flag));
    if (flag) CHECK_STR(value, "true");
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Win_get_errhandler(win, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    CHECK_OK(MPI_Win_create_errhandler(handle, &handler));
    CHECK_OK(MPI_Win_set_errhandler(win, handler));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Win_call_errhandler(win, MPI_ERR_RMA_SYNC));
    CHECK_INT(handled, MPI_ERR_RMA_SYNC);
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_INT(deleted, 74);
    return check_end();
}
