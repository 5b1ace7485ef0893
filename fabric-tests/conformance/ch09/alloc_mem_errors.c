/* MPI_Alloc_mem says MPI_ERR_NO_MEM when there is no such memory. MPI_Free_mem refuses what MPI_Alloc_mem did not give, and what was
 * freed before, with MPI_ERR_BASE. (Both with "may" in the text. MPICH 5.0 returns MPI_SUCCESS for memory that cannot be had; MPICH
 * 5.0 and Open MPI 5.0 crash on an address that is not theirs.)
 *
 * Covers: 9.2
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    static char elsewhere[64];
    char *memory = NULL, *other = NULL;
    check_start(&argc, &argv);
    CHECK_CLASS(MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &memory), MPI_ERR_NO_MEM);
    CHECK_OK(MPI_Alloc_mem(64, MPI_INFO_NULL, &memory));
    CHECK_OK(MPI_Alloc_mem(64, MPI_INFO_NULL, &other));
    CHECK_CLASS(MPI_Free_mem(elsewhere), MPI_ERR_BASE);
    CHECK_CLASS(MPI_Free_mem(memory + 8), MPI_ERR_BASE);
    CHECK_OK(MPI_Free_mem(memory));
    CHECK_CLASS(MPI_Free_mem(memory), MPI_ERR_BASE);
    CHECK_OK(MPI_Free_mem(other));
    return check_end();
}
