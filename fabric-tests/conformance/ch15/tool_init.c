/* The tool information interface is initialised and finalised by itself: counted, again and again, before MPI_Init, beside it, after
 * MPI_Finalize; one end too many is refused. Its codes are distinct, not above MPI_ERR_LASTCODE, and no
 * error handler runs. (MPICH 5.0 counts one end too many and is out of step afterwards.)
 *
 * Covers: 15.3.4, 15.3.10, 11.4.1
 * Ranks: 1 2
 */
#include "check.h"

static const int codes[] = {MPI_T_ERR_MEMORY, MPI_T_ERR_NOT_INITIALIZED, MPI_T_ERR_CANNOT_INIT, MPI_T_ERR_NOT_ACCESSIBLE,
                            MPI_T_ERR_INVALID_INDEX, MPI_T_ERR_INVALID_HANDLE, MPI_T_ERR_OUT_OF_HANDLES, MPI_T_ERR_OUT_OF_SESSIONS,
                            MPI_T_ERR_INVALID_SESSION, MPI_T_ERR_CVAR_SET_NOT_NOW, MPI_T_ERR_CVAR_SET_NEVER,
                            MPI_T_ERR_PVAR_NO_WRITE, MPI_T_ERR_PVAR_NO_STARTSTOP, MPI_T_ERR_PVAR_NO_ATOMIC, MPI_T_ERR_INVALID,
                            MPI_T_ERR_INVALID_NAME, MPI_T_ERR_NOT_SUPPORTED};

static void cycle(void)
{
    int provided = -1, n = -1;
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    CHECK(provided == MPI_THREAD_SINGLE || provided == MPI_THREAD_FUNNELED || provided == MPI_THREAD_SERIALIZED
          || provided == MPI_THREAD_MULTIPLE);
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_get_num(&n), MPI_SUCCESS);
    CHECK(n >= 0);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_get_num(&n), MPI_SUCCESS);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    CHECK(MPI_T_finalize() != MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++) {
        char text[MPI_MAX_ERROR_STRING];
        int length = -1;
        CHECK(codes[i] > 0 && codes[i] <= MPI_ERR_LASTCODE);
        for (unsigned k = 0; k < i; k++) CHECK(codes[k] != codes[i]);
        CHECK_INT(MPI_Error_string(codes[i], text, &length), MPI_SUCCESS);
    }
    cycle();
    cycle();
    check_start(&argc, &argv);
    cycle();
    MPI_Finalize();
    cycle();
    return check_verdict();
}
