/* Performance variables: each is described by a legal class with a legal datatype and found by name and class; handles belong to their
 * session; continuous ones are not started, read-only ones not written; MPI_T_PVAR_ALL_HANDLES passes those over. (Open MPI
 * 5.0 has other codes.)
 *
 * Covers: 15.3.7
 * Ranks: 1 2
 */
#include "check.h"

#define LONG 4096

int main(int argc, char **argv)
{
    int provided, n = -1, index;
    MPI_T_pvar_session session, other;
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    check_start(&argc, &argv);
    CHECK_INT(MPI_T_pvar_get_num(&n), MPI_SUCCESS);
    CHECK(n >= 0);
    CHECK_INT(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_session_create(&other), MPI_SUCCESS);
    CHECK(session != other && session != MPI_T_PVAR_SESSION_NULL);
    CHECK_INT(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
    for (int i = 0; i < n; i++) {
        char name[LONG] = "", desc[LONG] = "";
        int name_len = LONG, desc_len = LONG, verbosity, class = -1, bind = -1, readonly = -1, continuous = -1, atomic = -1;
        MPI_Datatype type = MPI_DATATYPE_NULL;
        MPI_T_enum items;
        int code = MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &items, desc, &desc_len, &bind, &readonly,
                                       &continuous, &atomic);
        CHECK_INT(code, MPI_SUCCESS);
        if (code != MPI_SUCCESS) continue;
        CHECK_INT(name_len, strlen(name) + 1);
        CHECK(class >= MPI_T_PVAR_CLASS_STATE && class <= MPI_T_PVAR_CLASS_GENERIC);
        int whole = type == MPI_UNSIGNED || type == MPI_UNSIGNED_LONG || type == MPI_UNSIGNED_LONG_LONG;
        if (class == MPI_T_PVAR_CLASS_STATE) CHECK(type == MPI_INT);
        else if (class == MPI_T_PVAR_CLASS_PERCENTAGE) CHECK(type == MPI_DOUBLE);
        else if (class == MPI_T_PVAR_CLASS_COUNTER) CHECK(whole);
        else if (class != MPI_T_PVAR_CLASS_GENERIC) CHECK(whole || type == MPI_DOUBLE);
        CHECK_INT(MPI_T_pvar_get_index(name, class, &index), MPI_SUCCESS);
        CHECK_INT(index, i);
        if (bind != MPI_T_BIND_NO_OBJECT) continue;
        MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
        int count = -1;
        CHECK_INT(MPI_T_pvar_handle_alloc(session, i, NULL, &handle, &count), MPI_SUCCESS);
        CHECK(count >= 1 && handle != MPI_T_PVAR_HANDLE_NULL && handle != MPI_T_PVAR_ALL_HANDLES);
        char *buffer = check_alloc((size_t)count * 16);
        if (continuous) {
            CHECK_INT(MPI_T_pvar_start(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
            CHECK_INT(MPI_T_pvar_stop(session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
        } else {
            CHECK_INT(MPI_T_pvar_start(session, handle), MPI_SUCCESS);
        }
        CHECK_INT(MPI_T_pvar_read(session, handle, buffer), MPI_SUCCESS);
        if (readonly) {
            CHECK_INT(MPI_T_pvar_write(session, handle, buffer), MPI_T_ERR_PVAR_NO_WRITE);
            CHECK_INT(MPI_T_pvar_reset(session, handle), MPI_T_ERR_PVAR_NO_WRITE);
        }
        CHECK_INT(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
        CHECK_INT(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
        free(buffer);
        CHECK_INT(MPI_T_pvar_handle_free(session, &handle), MPI_SUCCESS);
        CHECK(handle == MPI_T_PVAR_HANDLE_NULL);
    }
    CHECK_INT(MPI_T_pvar_get_index("no variable has this name", MPI_T_PVAR_CLASS_LEVEL, &index), MPI_T_ERR_INVALID_NAME);
    CHECK_INT(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
    CHECK(session == MPI_T_PVAR_SESSION_NULL);
    CHECK_INT(MPI_T_pvar_session_free(&other), MPI_SUCCESS);
    MPI_Finalize();
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_verdict();
}
