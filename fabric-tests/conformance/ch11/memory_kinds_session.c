/* Memory allocation kinds of sessions: asked for in the info of MPI_Session_init, which counts before the launch's; what is supported comes
 * back in the same words from the session and all communicators and windows derived from it, whatever other sessions have. (MPICH 5.0
 * does not strip blanks around an element.)
 *
 * Covers: 11.4.3, 11.3.1, 11.3.3
 * Ranks: 1 2
 */
#include "check.h"
#include "sessions.h"
#include "kinds.h"

#define SETS 5

int main(void)
{
    static const char *asked[SETS] = {"system", "mpi,system", "mpi:win_allocate:alloc_mem,system,nobody:has",
                                      " system , mpi:win_allocate_shared ", "mpi:alloc_mem,mpi:win_allocate,mpi"};
    static const char *must[SETS][4] = {{"system"}, {"mpi", "system"}, {"mpi:win_allocate:alloc_mem", "system"},
                                        {"system", "mpi:win_allocate_shared"}, {"mpi:alloc_mem", "mpi:win_allocate", "mpi"}};
    MPI_Session sessions[SETS];
    MPI_Comm comms[SETS];
    char told[SETS][MPI_MAX_INFO_VAL], other[MPI_MAX_INFO_VAL];
    for (int i = 0; i < SETS; i++) {
        MPI_Info info = info_with(KINDS, asked[i]);
        char tag[32];
        snprintf(tag, sizeof tag, "kinds %d", i);
        CHECK_INT(MPI_Session_init(info, MPI_ERRORS_RETURN, &sessions[i]), MPI_SUCCESS);
        CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
        comms[i] = comm_of_set(sessions[i], "mpi://WORLD", tag);
    }
    check_by(comms[0]);
    for (int i = 0; i < SETS; i++) {
        MPI_Comm copy, part;
        MPI_Win win;
        int *memory;
        CHECK(session_info(sessions[i], KINDS, told[i], MPI_MAX_INFO_VAL));
        for (int k = 0; k < 4 && must[i][k]; k++)
            if (!has(told[i], must[i][k])) CHECK_FAIL("\"%s\" lacks %s", told[i], must[i][k]);
        CHECK(strstr(told[i], "nobody") == NULL);
        CHECK_STR(of_comm(comms[i], KINDS, other), told[i]);
        CHECK_INT(MPI_Comm_dup(comms[i], &copy), MPI_SUCCESS);
        CHECK_INT(MPI_Comm_split(copy, 0, -check_rank, &part), MPI_SUCCESS);
        CHECK_STR(of_comm(part, KINDS, other), told[i]);
        CHECK_INT(MPI_Win_allocate(64, 1, MPI_INFO_NULL, part, &memory, &win), MPI_SUCCESS);
        CHECK_STR(of_win(win, KINDS, other), told[i]);
        CHECK_INT(MPI_Win_free(&win), MPI_SUCCESS);
        CHECK_INT(MPI_Comm_disconnect(&part), MPI_SUCCESS);
        CHECK_INT(MPI_Comm_disconnect(&copy), MPI_SUCCESS);
    }
    for (int i = 0; i < SETS; i++) {
        CHECK_INT(MPI_Comm_disconnect(&comms[i]), MPI_SUCCESS);
        CHECK_INT(MPI_Session_finalize(&sessions[i]), MPI_SUCCESS);
    }
    return check_verdict();
}
