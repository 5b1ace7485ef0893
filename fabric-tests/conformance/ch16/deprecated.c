/* Deprecated procedures, types and constants still do what they did: keys and attributes of chapter 16, the `_x` forms, the names of the
 * handler functions, MPI_HOST.
 *
 * Covers: 16.1, 16.2, 16.3, 16.4
 * Ranks: 1 2
 * Flags: -Wno-deprecated-declarations
 */
#include "check.h"

static int copied, deleted;

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)key;
    CHECK(extra == &copied);
    *(void **)out = (char *)in + 1;
    *flag = 1;
    copied++;
    return MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    deleted++;
    return MPI_SUCCESS;
}

static void of_comm(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }
static void of_win(MPI_Win *win, int *code, ...) { (void)win, (void)code; }
static void of_file(MPI_File *file, int *code, ...) { (void)file, (void)code; }

int main(int argc, char **argv)
{
    MPI_Copy_function *copy_function = copy;
    MPI_Delete_function *delete_function = forget;
    MPI_Comm_errhandler_fn *comm_function = of_comm;
    MPI_Win_errhandler_fn *win_function = of_win;
    MPI_File_errhandler_fn *file_function = of_file;
    MPI_Errhandler handler;
    static char memory[8];
    int own = MPI_KEYVAL_INVALID, dup = MPI_KEYVAL_INVALID, none = MPI_KEYVAL_INVALID, flag = -1, *host;
    char *value = NULL;
    MPI_Comm comm, child;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Keyval_create(copy_function, delete_function, &own, &copied));
    CHECK_OK(MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &dup, NULL));
    CHECK_OK(MPI_Keyval_create(MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN, &none, NULL));
    CHECK(own != dup && dup != none && own != none && own != MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Attr_get(comm, own, &value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Attr_put(comm, own, memory));
    CHECK_OK(MPI_Attr_put(comm, dup, memory + 2));
    CHECK_OK(MPI_Attr_put(comm, none, memory + 4));
    CHECK_OK(MPI_Attr_get(comm, own, &value, &flag));
    CHECK(flag && value == memory);
    /* They are the attributes of the newer calls. */
    CHECK_OK(MPI_Comm_get_attr(comm, dup, &value, &flag));
    CHECK(flag && value == memory + 2);
    CHECK_OK(MPI_Comm_dup(comm, &child));
    CHECK_INT(copied, 1);
    CHECK_OK(MPI_Attr_get(child, own, &value, &flag));
    CHECK(flag && value == memory + 1);
    CHECK_OK(MPI_Attr_get(child, dup, &value, &flag));
    CHECK(flag && value == memory + 2);
    CHECK_OK(MPI_Attr_get(child, none, &value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Attr_delete(child, own));
    CHECK_INT(deleted, 1);
    CHECK_OK(MPI_Attr_put(comm, own, memory + 5)); /* deletes the old value */
    CHECK_INT(deleted, 2);
    CHECK_OK(MPI_Keyval_free(&own));
    CHECK_INT(own, MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Comm_free(&child));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_INT(deleted, 3);
    CHECK_OK(MPI_Keyval_free(&dup));
    CHECK_OK(MPI_Keyval_free(&none));

    CHECK_OK(MPI_Attr_get(MPI_COMM_WORLD, MPI_HOST, &host, &flag));
    CHECK(flag && (*host == MPI_PROC_NULL || (*host >= 0 && *host < check_size)));
    CHECK_OK(MPI_Comm_create_errhandler(comm_function, &handler));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Win_create_errhandler(win_function, &handler));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_File_create_errhandler(file_function, &handler));
    CHECK_OK(MPI_Errhandler_free(&handler));

    MPI_Datatype pair;
    MPI_Count size = -1, lower = -1, extent = -1, elements = -1;
    MPI_Status status;
    int two[2] = {1, 2}, got[4];
    CHECK_OK(MPI_Type_vector(2, 1, 3, MPI_INT, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    CHECK_OK(MPI_Type_size_x(pair, &size));
    CHECK_INT(size, 2 * sizeof(int));
    CHECK_OK(MPI_Type_get_extent_x(pair, &lower, &extent));
    CHECK_INT(lower, 0);
    CHECK_INT(extent, 4 * sizeof(int));
    CHECK_OK(MPI_Type_get_true_extent_x(pair, &lower, &extent));
    CHECK_INT(extent, 4 * sizeof(int));
    CHECK_OK(MPI_Sendrecv(two, 1, MPI_INT, 0, 1, got, 1, pair, 0, 1, MPI_COMM_SELF, &status));
    CHECK_OK(MPI_Get_elements_x(&status, pair, &elements));
    CHECK_INT(elements, 1);
    CHECK_OK(MPI_Status_set_elements_x(&status, MPI_INT, 7));
    CHECK_OK(MPI_Get_elements_x(&status, MPI_INT, &elements));
    CHECK_INT(elements, 7);
    CHECK_OK(MPI_Type_free(&pair));
    return check_end();
}
