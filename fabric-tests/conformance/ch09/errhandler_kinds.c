/* Error handlers of communicators, windows, files and sessions: the predefined ones and user-made ones are set, got, called, replaced
 * and freed while attached; each handler is given its own object. What is attached first: MPI_ERRORS_ARE_FATAL to a window,
 * MPI_ERRORS_RETURN to MPI_FILE_NULL.
 *
 * Covers: 9.3, 9.3.1, 9.3.2, 9.3.3, 9.3.4, 9.3.5, 9.5.2, 14.7
 * Ranks: 1 2
 */
#include "check.h"

static struct { int calls, code; MPI_Comm comm; MPI_Win win; MPI_File file; MPI_Session session; } seen;

static void of_comm(MPI_Comm *comm, int *code, ...) { seen.calls++, seen.comm = *comm, seen.code = *code; }
static void of_win(MPI_Win *win, int *code, ...) { seen.calls++, seen.win = *win, seen.code = *code; }
static void of_file(MPI_File *file, int *code, ...) { seen.calls++, seen.file = *file, seen.code = *code; }
static void of_session(MPI_Session *session, int *code, ...) { seen.calls++, seen.session = *session, seen.code = *code; }

/* The same round for each kind of object. */
#define ROUND(Kind, object, first, function, field)                                             \
    do {                                                                                         \
        MPI_Errhandler mine, got;                                                                \
        CHECK_OK(MPI_##Kind##_get_errhandler(object, &got));                                     \
        CHECK(got == (first));                                                                   \
        CHECK_OK(MPI_Errhandler_free(&got));                                                     \
        CHECK(got == MPI_ERRHANDLER_NULL);                                                       \
        CHECK_OK(MPI_##Kind##_create_errhandler(function, &mine));                               \
        CHECK(mine != MPI_ERRHANDLER_NULL);                                                      \
        CHECK_OK(MPI_##Kind##_set_errhandler(object, mine));                                     \
        CHECK_OK(MPI_##Kind##_get_errhandler(object, &got));                                     \
        CHECK(got == mine);                                                                      \
        /* Two references of ours and the attachment. */                                         \
        CHECK_OK(MPI_Errhandler_free(&mine));                                                    \
        CHECK_OK(MPI_Errhandler_free(&got));                                                     \
        for (int i = 1; i <= 3; i++) {                                                           \
            memset(&seen, 0, sizeof seen);                                                       \
            CHECK_OK(MPI_##Kind##_call_errhandler(object, MPI_ERR_TAG));                         \
            CHECK_INT(seen.calls, 1);                                                            \
            CHECK_INT(seen.code, MPI_ERR_TAG);                                                   \
            CHECK(seen.field == (object));                                                       \
        }                                                                                        \
        /* Still there: it can be got once more and attached elsewhere. */                       \
        CHECK_OK(MPI_##Kind##_get_errhandler(object, &got));                                     \
        CHECK_OK(MPI_##Kind##_set_errhandler(object, MPI_ERRORS_RETURN));                        \
        seen.calls = 0;                                                                          \
        CHECK_OK(MPI_##Kind##_call_errhandler(object, MPI_ERR_TAG));                             \
        CHECK_INT(seen.calls, 0);                                                                \
        CHECK_OK(MPI_##Kind##_set_errhandler(object, got));                                      \
        CHECK_OK(MPI_##Kind##_call_errhandler(object, MPI_ERR_OTHER));                           \
        CHECK_INT(seen.calls, 1);                                                                \
        CHECK_INT(seen.code, MPI_ERR_OTHER);                                                     \
        CHECK_OK(MPI_##Kind##_set_errhandler(object, MPI_ERRORS_RETURN));                        \
        CHECK_OK(MPI_Errhandler_free(&got));                                                     \
        CHECK(got == MPI_ERRHANDLER_NULL);                                                       \
    } while (0)

int main(int argc, char **argv)
{
    static int memory[4];
    MPI_Comm comm;
    MPI_Win win;
    MPI_Session session;
    MPI_File no_file = MPI_FILE_NULL;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    ROUND(Comm, comm, MPI_ERRORS_RETURN, of_comm, comm);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    ROUND(Win, win, MPI_ERRORS_ARE_FATAL, of_win, win);
    CHECK_OK(MPI_Win_free(&win));
    ROUND(File, no_file, MPI_ERRORS_RETURN, of_file, file);
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    ROUND(Session, session, MPI_ERRORS_RETURN, of_session, session);
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
