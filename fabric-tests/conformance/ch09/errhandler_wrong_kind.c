/* A handler made for one kind of object is refused by the others, and so are handles that are no handlers; the handler attached
 * before stays. (Advice of section 9.3. MPICH 5.0 gives MPI_ERR_ARG; Open MPI 5.0 does not have the class.)
 *
 * Covers: 9.3, 9.4
 * Ranks: 1
 */
#include "check.h"

static void of_comm(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code; }
static void of_win(MPI_Win *win, int *code, ...) { (void)win, (void)code; }
static void of_file(MPI_File *file, int *code, ...) { (void)file, (void)code; }
static void of_session(MPI_Session *session, int *code, ...) { (void)session, (void)code; }

int main(int argc, char **argv)
{
    static int memory[4];
    MPI_Errhandler handlers[4], got;
    MPI_Win win;
    MPI_Session session;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_create_errhandler(of_comm, &handlers[0]));
    CHECK_OK(MPI_Win_create_errhandler(of_win, &handlers[1]));
    CHECK_OK(MPI_File_create_errhandler(of_file, &handlers[2]));
    CHECK_OK(MPI_Session_create_errhandler(of_session, &handlers[3]));
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    for (int i = 0; i < 4; i++) {
        if (i != 0) CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, handlers[i]), MPI_ERR_ERRHANDLER);
        if (i != 1) CHECK_CLASS(MPI_Win_set_errhandler(win, handlers[i]), MPI_ERR_ERRHANDLER);
        if (i != 2) CHECK_CLASS(MPI_File_set_errhandler(MPI_FILE_NULL, handlers[i]), MPI_ERR_ERRHANDLER);
        if (i != 3) CHECK_CLASS(MPI_Session_set_errhandler(session, handlers[i]), MPI_ERR_ERRHANDLER);
    }
    CHECK_CLASS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRHANDLER_NULL), MPI_ERR_ERRHANDLER);
    CHECK_OK(MPI_Comm_get_errhandler(MPI_COMM_WORLD, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Win_get_errhandler(win, &got));
    CHECK(got == MPI_ERRORS_RETURN);
    MPI_Errhandler gone = MPI_ERRHANDLER_NULL;
    CHECK_CLASS(MPI_Errhandler_free(&gone), MPI_ERR_ERRHANDLER);
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Errhandler_free(&handlers[i]));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
