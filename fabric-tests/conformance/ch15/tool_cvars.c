/* Control variables: what MPI_T_cvar_get_info tells of each is complete, stable and found again by name; strings follow the convention of
 * lengths; values can be read before MPI_Init and after; writing either works or says why not.
 *
 * Covers: 15.3.3, 15.3.5, 15.3.6
 * Ranks: 1 2
 */
#include "check.h"

#define LONG 4096

static int is_legal(MPI_Datatype type)
{
    return type == MPI_INT || type == MPI_INT32_T || type == MPI_INT64_T || type == MPI_UNSIGNED || type == MPI_UNSIGNED_LONG
           || type == MPI_UNSIGNED_LONG_LONG || type == MPI_UINT32_T || type == MPI_UINT64_T || type == MPI_COUNT
           || type == MPI_CHAR || type == MPI_DOUBLE;
}

static void look(int first)
{
    int n = -1, index;
    CHECK_INT(MPI_T_cvar_get_num(&n), MPI_SUCCESS);
    for (int i = 0; i < n; i++) {
        char name[LONG] = "", desc[LONG] = "", cut[6] = "zzzzz", item[256];
        int name_len = LONG, desc_len = LONG, verbosity = -1, bind = -1, scope = -1, cut_len = 4, only = 0, num = -1, value;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum items = MPI_T_ENUM_NULL;
        int code = MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &items, desc, &desc_len, &bind, &scope);
        CHECK_INT(code, MPI_SUCCESS);
        if (code != MPI_SUCCESS) continue;
        CHECK(strlen(name) > 0);
        CHECK_INT(name_len, strlen(name) + 1);
        CHECK_INT(desc_len, strlen(desc) + 1);
        CHECK(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
        CHECK(is_legal(type));
        CHECK(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ);
        CHECK_INT(MPI_T_cvar_get_index(name, &index), MPI_SUCCESS);
        CHECK_INT(index, i);
        /* Length alone; a cut name; nothing asked for at all. */
        CHECK_INT(MPI_T_cvar_get_info(i, NULL, &only, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_SUCCESS);
        CHECK_INT(only, name_len);
        CHECK_INT(MPI_T_cvar_get_info(i, cut, &cut_len, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_SUCCESS);
        CHECK_INT(strncmp(cut, name, 3), 0);
        CHECK_INT(cut[3], 0);
        CHECK_INT(cut[4], 'z');
        CHECK_INT(MPI_T_cvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_SUCCESS);
        if (items != MPI_T_ENUM_NULL) {
            int item_len = sizeof item;
            CHECK_INT(MPI_T_enum_get_info(items, &num, item, &item_len), MPI_SUCCESS);
            CHECK(num > 0);
            for (int k = 0; k < num; k++) {
                item_len = sizeof item;
                CHECK_INT(MPI_T_enum_get_item(items, k, &value, item, &item_len), MPI_SUCCESS);
                CHECK_INT(item_len, strlen(item) + 1);
            }
        }
        if (bind != MPI_T_BIND_NO_OBJECT) continue;
        MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
        int count = -1, size = 0;
        CHECK_INT(MPI_T_cvar_handle_alloc(i, NULL, &handle, &count), MPI_SUCCESS);
        CHECK(count >= 1);
        CHECK(handle != MPI_T_CVAR_HANDLE_NULL);
        size = 16;
        char *buffer = check_alloc((size_t)count * size + 16);
        memset(buffer, 0x5A, (size_t)count * size + 16);
        CHECK_INT(MPI_T_cvar_read(handle, buffer), MPI_SUCCESS);
        if (type == MPI_CHAR) CHECK(memchr(buffer, 0, (size_t)count) != NULL);
        /* The value it has is one it may have. */
        code = MPI_T_cvar_write(handle, buffer);
        CHECK(code == MPI_SUCCESS || code == MPI_T_ERR_CVAR_SET_NOT_NOW || code == MPI_T_ERR_CVAR_SET_NEVER);
        if (scope == MPI_T_SCOPE_CONSTANT || scope == MPI_T_SCOPE_READONLY) CHECK(code != MPI_SUCCESS);
        free(buffer);
        CHECK_INT(MPI_T_cvar_handle_free(&handle), MPI_SUCCESS);
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
    }
    CHECK_INT(MPI_T_cvar_get_index("no variable has this name", &index), MPI_T_ERR_INVALID_NAME);
    if (first >= 0) CHECK(n >= first);
}

int main(int argc, char **argv)
{
    int provided, n = -1;
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_get_num(&n), MPI_SUCCESS);
    look(-1);
    check_start(&argc, &argv);
    look(n);
    MPI_Finalize();
    look(n);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_verdict();
}
