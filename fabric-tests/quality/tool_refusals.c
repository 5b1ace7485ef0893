/* Wrong arguments of the tool interface come back as its codes, never as a crash or an error handler: indices outside, handles of another
 * session, freed handles, null pointers, calls before initialisation.
 *
 * Covers: 15.3.4, 15.3.6, 15.3.7, 15.3.9, 15.3.10
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    int provided, n = 0, index, count;
    char buffer[256];
    MPI_T_cvar_handle cvar, stale;
    MPI_T_pvar_handle pvar;
    MPI_T_pvar_session one, two;
    CHECK_INT(MPI_T_cvar_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_INT(MPI_T_pvar_session_create(&one), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_INT(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
    /* Errors are fatal here, and no error of the tool interface is an error of MPI. */
    MPI_Init(&argc, &argv);
    CHECK_INT(MPI_T_category_get_num(&n), MPI_T_ERR_NOT_INITIALIZED);
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    check_world();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    CHECK_INT(MPI_T_cvar_get_num(&n), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_get_num(NULL), MPI_T_ERR_INVALID);
    for (index = -1; index <= n; index += n + 1) {
        CHECK_INT(MPI_T_cvar_get_info(index, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
        CHECK_INT(MPI_T_cvar_handle_alloc(index, NULL, &cvar, &count), MPI_T_ERR_INVALID_INDEX);
        CHECK_INT(MPI_T_event_get_info(index, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    }
    CHECK_INT(MPI_T_cvar_get_index(NULL, &index), MPI_T_ERR_INVALID);
    CHECK_INT(MPI_T_cvar_handle_alloc(0, NULL, &cvar, &count), MPI_SUCCESS);
    stale = cvar;
    CHECK_INT(MPI_T_cvar_read(cvar, NULL), MPI_T_ERR_INVALID);
    CHECK_INT(MPI_T_cvar_handle_free(&cvar), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_handle_free(&cvar), MPI_T_ERR_INVALID_HANDLE);
    CHECK_INT(MPI_T_cvar_read(stale, buffer), MPI_T_ERR_INVALID_HANDLE);
    CHECK_INT(MPI_T_cvar_write(stale, buffer), MPI_T_ERR_INVALID_HANDLE);

    CHECK_INT(MPI_T_pvar_get_num(&n), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_get_info(n, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_INT(MPI_T_pvar_session_create(&one), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_session_create(&two), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_handle_alloc(one, n, NULL, &pvar, &count), MPI_T_ERR_INVALID_INDEX);
    CHECK_INT(MPI_T_pvar_handle_alloc(MPI_T_PVAR_SESSION_NULL, 0, NULL, &pvar, &count), MPI_T_ERR_INVALID_SESSION);
    CHECK_INT(MPI_T_pvar_handle_alloc(one, 0, NULL, &pvar, &count), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_read(two, pvar, buffer), MPI_T_ERR_INVALID_HANDLE);
    CHECK_INT(MPI_T_pvar_start(two, pvar), MPI_T_ERR_INVALID_HANDLE);
    CHECK_INT(MPI_T_pvar_handle_free(two, &pvar), MPI_T_ERR_INVALID_HANDLE);
    CHECK_INT(MPI_T_pvar_read(one, MPI_T_PVAR_ALL_HANDLES, buffer), MPI_T_ERR_INVALID_HANDLE);
    CHECK_INT(MPI_T_pvar_write(one, MPI_T_PVAR_ALL_HANDLES, buffer), MPI_T_ERR_INVALID_HANDLE);
    CHECK_INT(MPI_T_pvar_readreset(one, pvar, buffer), MPI_T_ERR_PVAR_NO_ATOMIC);
    CHECK_INT(MPI_T_pvar_session_free(&one), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_session_free(&one), MPI_T_ERR_INVALID_SESSION);
    CHECK_INT(MPI_T_category_get_num(&n), MPI_SUCCESS);
    CHECK_INT(MPI_T_category_get_info(n, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_INT(MPI_T_category_get_cvars(n, 0, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_INT(MPI_T_source_get_timestamp(0, NULL), MPI_T_ERR_INVALID_INDEX);
    CHECK_INT(MPI_T_enum_get_info(MPI_T_ENUM_NULL, &n, NULL, NULL), MPI_T_ERR_INVALID);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_end();
}
