/* Which handler a new object begins with: a communicator that of its parent, per process and as it is at the call; a window always
 * MPI_ERRORS_ARE_FATAL; a communicator made without parent the one given. A later change of the parent does not reach the child.
 * (MPICH 5.0: communicators of MPI_Comm_create and MPI_Comm_create_group inherit nothing.)
 *
 * Covers: 9.3, 9.3.1, 12.6.1, 7.4.2
 * Ranks: 1 3
 */
#include "check.h"

static int mine_calls, other_calls;
static void mine(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, mine_calls++; }
static void other(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, other_calls++; }

/* The child answers an error with the handler `mine` alone. */
static void look(MPI_Comm *child)
{
    int before = mine_calls;
    if (*child == MPI_COMM_NULL) return;
    MPI_Send(NULL, 0, MPI_INT, 1000, 0, *child);
    CHECK_INT(mine_calls, before + 1);
    CHECK_INT(other_calls, 0);
    CHECK_OK(MPI_Comm_free(child));
}

int main(int argc, char **argv)
{
    static int memory[4];
    MPI_Comm parent, child, inner;
    MPI_Errhandler handler, changed, got;
    MPI_Group group;
    MPI_Request request;
    MPI_Win win;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_create_errhandler(mine, &handler));
    CHECK_OK(MPI_Comm_create_errhandler(other, &changed));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    CHECK_OK(MPI_Comm_group(parent, &group));
    CHECK_OK(MPI_Comm_set_errhandler(parent, handler));

    CHECK_OK(MPI_Comm_dup(parent, &child));
    CHECK_OK(MPI_Comm_dup(child, &inner));
    look(&child);
    look(&inner);
    CHECK_OK(MPI_Comm_split(parent, check_rank % 2, 0, &child));
    look(&child);
    CHECK_OK(MPI_Comm_split_type(parent, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &child));
    look(&child);
    CHECK_OK(MPI_Comm_create(parent, group, &child));
    look(&child);
    CHECK_OK(MPI_Comm_create_group(parent, group, 7, &child));
    look(&child);
    CHECK_OK(MPI_Comm_idup(parent, &child, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    look(&child);

    CHECK_OK(MPI_Comm_dup(parent, &child));
    CHECK_OK(MPI_Comm_set_errhandler(parent, changed));
    look(&child);
    /* Processes may attach different handlers. */
    CHECK_OK(MPI_Comm_set_errhandler(parent, check_rank == 0 ? handler : MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_dup(parent, &child));
    CHECK_OK(MPI_Comm_get_errhandler(child, &got));
    CHECK(got == (check_rank == 0 ? handler : MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&got));
    CHECK_OK(MPI_Comm_free(&child));

    CHECK_OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, parent, &win));
    CHECK_OK(MPI_Win_get_errhandler(win, &got));
    CHECK(got == MPI_ERRORS_ARE_FATAL);
    CHECK_OK(MPI_Win_free(&win));

    CHECK_OK(MPI_Comm_create_from_group(group, "inherited", MPI_INFO_NULL, handler, &child));
    look(&child);
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Errhandler_free(&changed));
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Comm_free(&parent));
    return check_end();
}
