/* Attributes in every way they come and go, on communicators, datatypes and windows: when copy and delete functions are called and with
 * what; errors in them fail the call and change nothing; keys of one class of object are refused by another; freed keys; predefined
 * functions; the deprecated procedures.
 *
 * Covers: 7.7, 7.7.1, 7.7.2, 7.7.3, 7.7.4, 7.7.5, 16.1
 * Ranks: 1 2
 */
#include "check.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int copied, deleted, fail_copy, fail_delete, last_key;
static void *last_value;
static char extra;

static int answer_copy(int keyval, void *state, void *in, void *out, int *flag)
{
    CHECK(state == &extra);
    last_key = keyval;
    last_value = in;
    if (fail_copy) return MPI_ERR_INTERN;
    copied++;
    *(void **)out = (char *)in + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int answer_delete(int keyval, void *value, void *state)
{
    CHECK(state == &extra);
    last_key = keyval;
    last_value = value;
    if (fail_delete) return MPI_ERR_INTERN;
    deleted++;
    return MPI_SUCCESS;
}

static int comm_copy(MPI_Comm comm, int key, void *state, void *in, void *out, int *flag)
{
    CHECK(comm != MPI_COMM_NULL);
    return answer_copy(key, state, in, out, flag);
}
static int comm_delete(MPI_Comm comm, int key, void *value, void *state)
{
    CHECK(comm != MPI_COMM_NULL);
    return answer_delete(key, value, state);
}
static int type_copy(MPI_Datatype type, int key, void *state, void *in, void *out, int *flag)
{
    CHECK(type != MPI_DATATYPE_NULL);
    return answer_copy(key, state, in, out, flag);
}
static int type_delete(MPI_Datatype type, int key, void *value, void *state)
{
    CHECK(type != MPI_DATATYPE_NULL);
    return answer_delete(key, value, state);
}
static int win_delete(MPI_Win win, int key, void *value, void *state)
{
    CHECK(win != MPI_WIN_NULL);
    return answer_delete(key, value, state);
}
static int win_copy(MPI_Win win, int key, void *state, void *in, void *out, int *flag)
{
    (void)win, (void)key, (void)state, (void)in, (void)out, (void)flag;
    CHECK(!"windows are never copied");
    return MPI_SUCCESS;
}

static char values[32];

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int key, other, flag, type_key, win_key, freed;
    void *value;
    MPI_Comm comm, twin;
    MPI_Datatype type, type_twin;
    MPI_Win win;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_keyval(comm_copy, comm_delete, &key, &extra));
    CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &other, &extra));
    CHECK(key != other && key != MPI_KEYVAL_INVALID && other != MPI_KEYVAL_INVALID);

    /* Values may be anything, the null pointer too. */
    CHECK_OK(MPI_Comm_set_attr(comm, key, NULL));
    CHECK_OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    CHECK(flag && value == NULL);
    CHECK_OK(MPI_Comm_set_attr(comm, key, values));
    CHECK_INT(deleted, 1);
    CHECK(last_key == key && last_value == NULL);

    /* A failing delete function: the old value stays. */
    fail_delete = 1;
    CHECK(MPI_Comm_set_attr(comm, key, values + 1) != MPI_SUCCESS);
    CHECK(MPI_Comm_delete_attr(comm, key) != MPI_SUCCESS);
    CHECK_OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    CHECK(flag && value == values);
    CHECK_INT(deleted, 1);
    fail_delete = 0;

    /* A failing copy function at all members: no new communicator. */
    fail_copy = 1;
    twin = MPI_COMM_NULL;
    CHECK(MPI_Comm_dup(comm, &twin) != MPI_SUCCESS);
    fail_copy = 0;
    CHECK_INT(copied, 0);
    CHECK_OK(MPI_Comm_set_attr(comm, other, values + 9));
    CHECK_OK(MPI_Comm_dup(comm, &twin));
    CHECK_INT(copied, 1);
    CHECK(last_key == key && last_value == values);
    CHECK_OK(MPI_Comm_get_attr(twin, key, &value, &flag));
    CHECK(flag && value == values + 1);
    CHECK_OK(MPI_Comm_get_attr(twin, other, &value, &flag));
    CHECK_INT(flag, 0);
    /* Not copied by anything but duplication. */
    MPI_Comm part;
    CHECK_OK(MPI_Comm_split(comm, 0, 0, &part));
    CHECK_INT(copied, 1);
    CHECK_OK(MPI_Comm_get_attr(part, key, &value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Comm_free(&part));

    /* Freed while in use: lives on, and is copied along. */
    freed = key;
    CHECK_OK(MPI_Comm_free_keyval(&freed));
    CHECK_INT(freed, MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Comm_dup(twin, &part));
    CHECK_INT(copied, 2);
    deleted = 0;
    CHECK_OK(MPI_Comm_free(&part));
    CHECK_INT(deleted, 1);
    CHECK(last_value == values + 2);
    CHECK_OK(MPI_Comm_disconnect(&twin));
    CHECK_INT(deleted, 2);
    CHECK_OK(MPI_Comm_delete_attr(comm, key));
    CHECK_INT(deleted, 3);
    CHECK_CLASS(MPI_Comm_get_attr(comm, MPI_KEYVAL_INVALID, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_set_attr(comm, MPI_KEYVAL_INVALID, values), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_delete_attr(comm, MPI_KEYVAL_INVALID), MPI_ERR_KEYVAL);

    /* Datatypes. */
    copied = deleted = 0;
    CHECK_OK(MPI_Type_create_keyval(type_copy, type_delete, &type_key, &extra));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    CHECK_OK(MPI_Type_set_attr(type, type_key, values));
    CHECK_OK(MPI_Type_dup(type, &type_twin));
    CHECK_INT(copied, 1);
    CHECK_OK(MPI_Type_get_attr(type_twin, type_key, &value, &flag));
    CHECK(flag && value == values + 1);
    fail_copy = 1;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    CHECK(MPI_Type_dup(type, &none) != MPI_SUCCESS);
    fail_copy = 0;
    CHECK_OK(MPI_Type_free(&type_twin));
    CHECK_INT(deleted, 1);
    CHECK_OK(MPI_Type_set_attr(type, type_key, values + 4));
    CHECK_INT(deleted, 2);
    CHECK_OK(MPI_Type_delete_attr(type, type_key));
    CHECK_INT(deleted, 3);
    CHECK_OK(MPI_Type_get_attr(type, type_key, &value, &flag));
    CHECK_INT(flag, 0);
    /* Predefined types have attributes too. */
    CHECK_OK(MPI_Type_set_attr(MPI_INT, type_key, values));
    CHECK_OK(MPI_Type_get_attr(MPI_INT, type_key, &value, &flag));
    CHECK(flag && value == values);
    CHECK_OK(MPI_Type_delete_attr(MPI_INT, type_key));

    /* Windows. */
    int base[4];
    deleted = 0;
    CHECK_OK(MPI_Win_create(base, sizeof base, 4, MPI_INFO_NULL, comm, &win));
    CHECK_OK(MPI_Win_create_keyval(win_copy, win_delete, &win_key, &extra));
    CHECK_OK(MPI_Win_get_attr(win, win_key, &value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Win_set_attr(win, win_key, values));
    CHECK_OK(MPI_Win_set_attr(win, win_key, values + 1));
    CHECK_INT(deleted, 1);
    CHECK_OK(MPI_Win_get_attr(win, win_key, &value, &flag));
    CHECK(flag && value == values + 1);
    CHECK_OK(MPI_Win_delete_attr(win, win_key));
    CHECK_INT(deleted, 2);
    CHECK_OK(MPI_Win_set_attr(win, win_key, values));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));

    /* Keys of another class. */
    CHECK_CLASS(MPI_Comm_set_attr(comm, type_key, values), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Comm_get_attr(comm, win_key, &value, &flag), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Type_set_attr(type, other, values), MPI_ERR_KEYVAL);
    CHECK_CLASS(MPI_Win_set_attr(win, type_key, values), MPI_ERR_KEYVAL);
    freed = win_key;
    CHECK_CLASS(MPI_Comm_free_keyval(&freed), MPI_ERR_KEYVAL);
    freed = other;
    CHECK_CLASS(MPI_Type_free_keyval(&freed), MPI_ERR_KEYVAL);

    CHECK_OK(MPI_Win_free(&win));
    CHECK_INT(deleted, 3);
    CHECK_OK(MPI_Win_free_keyval(&win_key));
    CHECK_OK(MPI_Type_free_keyval(&type_key));
    CHECK_INT(type_key, MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Comm_free_keyval(&other));

    /* The deprecated names do the same, and mix with the others. */
    copied = deleted = 0;
    CHECK_OK(MPI_Keyval_create(comm_copy, comm_delete, &key, &extra));
    CHECK_OK(MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, &other, NULL));
    CHECK_OK(MPI_Attr_put(comm, key, values));
    CHECK_OK(MPI_Attr_put(comm, other, values + 3));
    CHECK_OK(MPI_Comm_get_attr(comm, key, &value, &flag));
    CHECK(flag && value == values);
    CHECK_OK(MPI_Comm_dup(comm, &twin));
    CHECK_OK(MPI_Attr_get(twin, key, &value, &flag));
    CHECK(flag && value == values + 1);
    CHECK_OK(MPI_Attr_get(twin, other, &value, &flag));
    CHECK(flag && value == values + 3);
    CHECK_OK(MPI_Attr_delete(twin, key));
    CHECK_INT(deleted, 1);
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_INT(deleted, 2);
    CHECK_OK(MPI_Keyval_free(&key));
    CHECK_INT(key, MPI_KEYVAL_INVALID);
    CHECK_OK(MPI_Keyval_free(&other));
    return check_end();
}
