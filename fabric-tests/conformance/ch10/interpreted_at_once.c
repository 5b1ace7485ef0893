/* An info argument is interpreted before the procedure returns: changing and freeing it afterwards changes nothing, also for nonblocking
 * procedures. Keys that nobody knows are ignored everywhere, and the info object keeps them.
 *
 * Covers: 10, 2.5.1
 * Ranks: 1 2
 */
#include "check.h"

/* A hint that communicators must give back. */
#define HINT "mpi_assert_no_any_tag"

static void look(MPI_Comm comm, const char *wanted)
{
    char value[64] = "";
    int flag = 0, length = sizeof value;
    MPI_Info used;
    CHECK_OK(MPI_Comm_get_info(comm, &used));
    CHECK_OK(MPI_Info_get_string(used, HINT, &length, value, &flag));
    if (flag) CHECK_STR(value, wanted);
    CHECK_OK(MPI_Info_free(&used));
}

int main(int argc, char **argv)
{
    MPI_Comm first, second;
    MPI_Request request;
    MPI_Info info, used;
    MPI_Win win;
    MPI_Session session;
    int *memory, *mine, n = -1, flag = 0, length = 64;
    char value[64];
    check_start(&argc, &argv);
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, HINT, "true"));
    CHECK_OK(MPI_Info_set(info, "nobody knows this", "value"));
    CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &first));
    CHECK_OK(MPI_Comm_idup_with_info(MPI_COMM_WORLD, info, &second, &request));
    CHECK_OK(MPI_Info_set(info, HINT, "false"));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    look(first, "true");
    look(second, "true");
    CHECK_OK(MPI_Comm_set_info(first, info));
    CHECK_OK(MPI_Info_set(info, HINT, "true"));
    look(first, "false");

    CHECK_OK(MPI_Info_set(info, "no_locks", "whatever"));
    CHECK_OK(MPI_Info_delete(info, "no_locks"));
    CHECK_OK(MPI_Win_allocate(sizeof(int), sizeof(int), info, MPI_COMM_WORLD, &memory, &win));
    CHECK_OK(MPI_Win_set_info(win, info));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Alloc_mem(64, info, &mine));
    CHECK_OK(MPI_Free_mem(mine));
    CHECK_OK(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Session_finalize(&session));
    MPI_Comm third;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, info, &third));
    CHECK_OK(MPI_Comm_free(&third));

    CHECK_OK(MPI_Info_get_string(info, "nobody knows this", &length, value, &flag));
    CHECK(flag);
    CHECK_STR(value, "value");
    CHECK_OK(MPI_Info_get_nkeys(info, &n));
    CHECK_INT(n, 2);
    CHECK_OK(MPI_Info_free(&info));
    look(first, "false");
    look(second, "true");
    CHECK_OK(MPI_Comm_get_info(second, &used));
    CHECK_OK(MPI_Info_get_string(used, "nobody knows this", &length, value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Info_free(&used));
    CHECK_OK(MPI_Comm_free(&first));
    CHECK_OK(MPI_Comm_free(&second));
    return check_end();
}
