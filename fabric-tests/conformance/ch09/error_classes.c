/* Every error class is its own code, lies between MPI_SUCCESS and MPI_ERR_LASTCODE, and has a string; strings and classes
 * can be asked for before MPI_Init and after MPI_Finalize.
 *
 * Covers: 9.4, 11.4.1
 * Ranks: 1
 */
#include "check.h"

static const struct { int code; const char *name; } classes[] = {
#define C(name) {name, #name}
    C(MPI_SUCCESS), C(MPI_ERR_BUFFER), C(MPI_ERR_COUNT), C(MPI_ERR_TYPE), C(MPI_ERR_TAG), C(MPI_ERR_COMM), C(MPI_ERR_RANK),
    C(MPI_ERR_REQUEST), C(MPI_ERR_ROOT), C(MPI_ERR_GROUP), C(MPI_ERR_OP), C(MPI_ERR_TOPOLOGY), C(MPI_ERR_DIMS),
    C(MPI_ERR_ARG), C(MPI_ERR_UNKNOWN), C(MPI_ERR_TRUNCATE), C(MPI_ERR_OTHER), C(MPI_ERR_INTERN), C(MPI_ERR_PENDING),
    C(MPI_ERR_IN_STATUS), C(MPI_ERR_ACCESS), C(MPI_ERR_AMODE), C(MPI_ERR_ASSERT), C(MPI_ERR_BAD_FILE), C(MPI_ERR_BASE),
    C(MPI_ERR_CONVERSION), C(MPI_ERR_DISP), C(MPI_ERR_DUP_DATAREP), C(MPI_ERR_FILE_EXISTS), C(MPI_ERR_FILE_IN_USE),
    C(MPI_ERR_FILE), C(MPI_ERR_INFO_KEY), C(MPI_ERR_INFO_NOKEY), C(MPI_ERR_INFO_VALUE), C(MPI_ERR_INFO), C(MPI_ERR_IO),
    C(MPI_ERR_KEYVAL), C(MPI_ERR_LOCKTYPE), C(MPI_ERR_NAME), C(MPI_ERR_NO_MEM), C(MPI_ERR_NOT_SAME), C(MPI_ERR_NO_SPACE),
    C(MPI_ERR_NO_SUCH_FILE), C(MPI_ERR_PORT), C(MPI_ERR_QUOTA), C(MPI_ERR_READ_ONLY), C(MPI_ERR_RMA_ATTACH),
    C(MPI_ERR_RMA_CONFLICT), C(MPI_ERR_RMA_RANGE), C(MPI_ERR_RMA_SHARED), C(MPI_ERR_RMA_SYNC), C(MPI_ERR_SERVICE),
    C(MPI_ERR_SIZE), C(MPI_ERR_SPAWN), C(MPI_ERR_UNSUPPORTED_DATAREP), C(MPI_ERR_UNSUPPORTED_OPERATION), C(MPI_ERR_WIN),
    C(MPI_ERR_RMA_FLAVOR), C(MPI_ERR_PROC_ABORTED), C(MPI_ERR_VALUE_TOO_LARGE), C(MPI_ERR_SESSION), C(MPI_ERR_ERRHANDLER),
};
#define N (sizeof classes / sizeof *classes)

static void look(void)
{
    for (unsigned i = 0; i < N; i++) {
        char text[MPI_MAX_ERROR_STRING + 1];
        int length = -1, error_class = -1;
        memset(text, 0x5A, sizeof text);
        CHECK_INT(MPI_Error_class(classes[i].code, &error_class), MPI_SUCCESS);
        CHECK_INT(error_class, classes[i].code);
        CHECK_INT(MPI_Error_string(classes[i].code, text, &length), MPI_SUCCESS);
        CHECK(length > 0 && length < MPI_MAX_ERROR_STRING);
        CHECK_INT(strnlen(text, sizeof text), length);
        CHECK(classes[i].code >= MPI_SUCCESS && classes[i].code <= MPI_ERR_LASTCODE);
        for (unsigned k = 0; k < i; k++)
            if (classes[i].code == classes[k].code) CHECK_FAIL("%s and %s are the same", classes[i].name, classes[k].name);
    }
}

int main(int argc, char **argv)
{
    look();
    check_start(&argc, &argv);
    look();
    /* A code that a call returned has one of these classes and a string of its own. */
    char text[MPI_MAX_ERROR_STRING];
    int length = 0, error_class = -1, code = MPI_Send(NULL, 0, MPI_INT, 77, 0, MPI_COMM_WORLD);
    CHECK(code != MPI_SUCCESS);
    CHECK_OK(MPI_Error_class(code, &error_class));
    CHECK_INT(error_class, MPI_ERR_RANK);
    CHECK_OK(MPI_Error_string(code, text, &length));
    CHECK(length > 0);
    MPI_Finalize();
    look();
    return check_verdict();
}
