/* Which error handler gets the errors around sessions: of calls on a session and of procedures on groups derived from it its own, also when
 * the World Model is active; the one given to MPI_Session_init errors of that call; a bad session handle is no session's. (MPICH 5.0
 * raises errors of groups on MPI_COMM_SELF or the initial handler.)
 *
 * Covers: 9.3, 9.3.4, 11.3.1, 11.4.1
 * Ranks: 1
 */
#include "check.h"
#include "sessions.h"

static int calls, self_calls;
static MPI_Session given;
static int code_given;
static void of_session(MPI_Session *session, int *code, ...) { calls++, given = *session, code_given = *code; }
static void of_self(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, self_calls++; }

#define ON_SESSION(call, session)        \
    do {                                 \
        int before = calls;              \
        (void)(call);                    \
        CHECK_INT(calls, before + 1);    \
        CHECK(given == (session));       \
        CHECK_INT(self_calls, 0);        \
    } while (0)

int main(int argc, char **argv)
{
    MPI_Session session, other;
    MPI_Errhandler handler, self;
    MPI_Group group, part;
    MPI_Info info;
    int length = 10, rank = 999, got;
    char name[10];
    /* Before any initialisation. */
    CHECK_INT(MPI_Session_create_errhandler(of_session, &handler), MPI_SUCCESS);
    CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(handler)) == handler);
    CHECK_INT(MPI_Session_init(MPI_INFO_NULL, handler, &session), MPI_SUCCESS);
    ON_SESSION(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 100000, &length, name), session);
    ON_SESSION(MPI_Session_get_pset_info(session, "nobody://knows", &info), session);
    CHECK_INT(MPI_Session_call_errhandler(session, MPI_ERR_OTHER), MPI_SUCCESS);
    CHECK_INT(code_given, MPI_ERR_OTHER);
    CHECK_INT(MPI_Group_from_session_pset(session, "mpi://WORLD", &group), MPI_SUCCESS);
    ON_SESSION(MPI_Group_translate_ranks(group, 1, &rank, group, &got), session);
    ON_SESSION(MPI_Group_incl(group, 1, &rank, &part), session);

    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_create_errhandler(of_self, &self));
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, self));
    rank = 0;
    CHECK_OK(MPI_Group_incl(group, 1, &rank, &part));
    rank = 999;
    ON_SESSION(MPI_Group_incl(part, 1, &rank, &part), session);
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
    CHECK_OK(MPI_Session_set_errhandler(other, handler));
    ON_SESSION(MPI_Session_get_nth_pset(other, MPI_INFO_NULL, -1, &length, name), other);
    CHECK_OK(MPI_Session_finalize(&other));
    CHECK(other == MPI_SESSION_NULL);
    /* The session is gone: what is left of it goes to MPI_COMM_SELF. */
    CHECK_OK(MPI_Group_free(&part));
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Session_finalize(&session));
    int before = calls;
    CHECK(MPI_Session_get_nth_pset(MPI_SESSION_NULL, MPI_INFO_NULL, 0, &length, name) != MPI_SUCCESS);
    CHECK_INT(self_calls, 1);
    CHECK_INT(calls, before);
    CHECK_OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Errhandler_free(&self));
    MPI_Finalize();
    CHECK_INT(MPI_Errhandler_free(&handler), MPI_SUCCESS);
    CHECK(handler == MPI_ERRHANDLER_NULL);
    return check_verdict();
}
