/* mpi_assert_memory_alloc_kinds on communicators and windows: not set by default; given back exactly as it was where all kinds are supported,
 * ignored as a whole where one is not. (MPICH 5.0 does not know the key with restricted kinds.)
 *
 * Covers: 11.4.3, 7.4.4, 12.2.7
 * Ranks: 1 2
 */
#include "check.h"
#include "kinds.h"

int main(int argc, char **argv)
{
    char room[MPI_MAX_INFO_VAL];
    MPI_Comm plain, good, bad;
    MPI_Win win;
    int *memory;
    check_start(&argc, &argv);
    MPI_Info known = info_with(ASSERTED, "system,mpi:win_allocate"), unknown = info_with(ASSERTED, "system,nobody:has");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &plain));
    CHECK_STR(of_comm(plain, ASSERTED, room), "");
    CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, known, &good));
    CHECK_STR(of_comm(good, ASSERTED, room), "system,mpi:win_allocate");
    CHECK(strlen(of_comm(good, KINDS, room)) > 0);
    CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, unknown, &bad));
    CHECK_STR(of_comm(bad, ASSERTED, room), "");
    CHECK_OK(MPI_Win_allocate(64, 1, known, MPI_COMM_WORLD, &memory, &win));
    CHECK_STR(of_win(win, ASSERTED, room), "system,mpi:win_allocate");
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Win_allocate(64, 1, unknown, MPI_COMM_WORLD, &memory, &win));
    CHECK_STR(of_win(win, ASSERTED, room), "");
    CHECK_OK(MPI_Win_free(&win));
    /* Hints are not handed on by MPI_Comm_dup. */
    CHECK_OK(MPI_Comm_free(&plain));
    CHECK_OK(MPI_Comm_dup(good, &plain));
    CHECK_STR(of_comm(plain, ASSERTED, room), "");
    CHECK_OK(MPI_Comm_free(&plain));
    CHECK_OK(MPI_Comm_free(&good));
    CHECK_OK(MPI_Comm_free(&bad));
    CHECK_OK(MPI_Info_free(&known));
    CHECK_OK(MPI_Info_free(&unknown));
    return check_end();
}
