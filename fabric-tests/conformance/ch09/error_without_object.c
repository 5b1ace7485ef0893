/* Errors of calls without communicator, window, file or session are raised on MPI_COMM_SELF, not on MPI_COMM_WORLD; so are those of
 * calls whose handle is bad. (Open MPI 5.0 raises
 * them on MPI_COMM_WORLD, as MPI 3.1 said.)
 *
 * Covers: 2.8, 9.3, 18.1
 * Ranks: 1 2
 */
#include "check.h"

static int self_calls, world_calls;
static MPI_Comm given;
static void of_self(MPI_Comm *comm, int *code, ...) { (void)code, given = *comm, self_calls++; }
static void of_world(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, world_calls++; }

#define ON_SELF(call)                         \
    do {                                      \
        int before = self_calls;              \
        (void)(call);                         \
        CHECK_INT(self_calls, before + 1);    \
        CHECK(given == MPI_COMM_SELF);        \
        CHECK_INT(world_calls, 0);            \
    } while (0)

int main(int argc, char **argv)
{
    MPI_Errhandler self, world;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Group group;
    MPI_Info info;
    char key[MPI_MAX_INFO_KEY + 1];
    int code, n, rank = 77, keyval = MPI_KEYVAL_INVALID;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_create_errhandler(of_self, &self));
    CHECK_OK(MPI_Comm_create_errhandler(of_world, &world));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, self));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, world));
    ON_SELF(MPI_Type_contiguous(-1, MPI_INT, &type));
    ON_SELF(MPI_Info_delete(info, "not there"));
    ON_SELF(MPI_Type_free(&type));
    ON_SELF(MPI_Comm_free_keyval(&keyval));
    ON_SELF(MPI_Info_get_nthkey(info, 99, key));
    ON_SELF(MPI_Group_translate_ranks(group, 1, &rank, group, &n));
    ON_SELF(MPI_Comm_size(MPI_COMM_NULL, &n));
    /* The same error on a communicator stays there. */
    code = MPI_Send(NULL, 0, MPI_INT, 1000, 0, MPI_COMM_WORLD);
    (void)code;
    CHECK_INT(world_calls, 1);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&self));
    CHECK_OK(MPI_Errhandler_free(&world));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Group_free(&group));
    return check_end();
}
