/* Attributes of communicators: set, got, deleted, copied by MPI_Comm_dup as their copy function says, deleted with the
 * communicator; keys freed while in use; a failing callback fails its call.
 *
 * Covers: 7.7.2, 7.4.2, 7.4.3
 * Ranks: 1 2
 */
#include "check.h"

static int copies, deletions, refuse;

static int copy_one_more(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval;
    CHECK(extra == &copies);
    copies++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

static int forget(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm, (void)keyval, (void)value;
    CHECK(extra == &copies);
    deletions++;
    return refuse ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int ours, shared, lost, flag = -1;
    char *base = check_alloc(64);
    void *value = NULL;
    MPI_Comm comm, twin;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_keyval(copy_one_more, forget, &ours, &copies));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &shared, NULL));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &lost, NULL));
    CHECK(ours != shared && shared != lost && ours != MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Comm_get_attr(comm, ours, &value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Comm_set_attr(comm, ours, base));
    CHECK_OK(MPI_Comm_set_attr(comm, shared, base + 10));
    CHECK_OK(MPI_Comm_set_attr(comm, lost, base + 20));
    CHECK_OK(MPI_Comm_get_attr(comm, ours, &value, &flag));
    CHECK(flag && value == base);

    CHECK_OK(MPI_Comm_dup(comm, &twin));
    CHECK_INT(copies, 1);
    CHECK_OK(MPI_Comm_get_attr(twin, ours, &value, &flag));
    CHECK(flag && value == base + 1);
    CHECK_OK(MPI_Comm_get_attr(twin, shared, &value, &flag));
    CHECK(flag && value == base + 10);
    CHECK_OK(MPI_Comm_get_attr(twin, lost, &value, &flag));
    CHECK_INT(flag, 0);

    /* Setting again deletes the old value first. */
    CHECK_OK(MPI_Comm_set_attr(comm, ours, base + 5));
    CHECK_INT(deletions, 1);
    CHECK_OK(MPI_Comm_delete_attr(comm, shared));
    CHECK_OK(MPI_Comm_get_attr(comm, shared, &value, &flag));
    CHECK_INT(flag, 0);

    /* A freed key lives on where it is attached. */
    int key = ours;
    CHECK_OK(MPI_Comm_free_keyval(&key));
    CHECK_INT(key, MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Comm_get_attr(twin, ours, &value, &flag));
    CHECK(flag && value == base + 1);
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK_INT(deletions, 2);

    refuse = 1;
    CHECK(MPI_Comm_dup(comm, &twin) != MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(comm, ours) != MPI_SUCCESS);
    refuse = 0;
    int before = deletions;
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK(deletions >= before);
    CHECK_OK(MPI_Comm_free_keyval(&shared));
    CHECK_OK(MPI_Comm_free_keyval(&lost));
    free(base);
    return check_end();
}
