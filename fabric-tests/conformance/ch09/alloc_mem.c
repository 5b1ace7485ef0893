/* MPI_Alloc_mem gives memory that is aligned for every type and usable for messages; MPI_Free_mem takes it back.
 *
 * Covers: 9.2
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (MPI_Aint size = 1; size <= 8 << 20; size = size * 5 + 3) {
        unsigned char *out = NULL, *in = NULL;
        int peer = check_size - 1 - check_rank;
        CHECK_OK(MPI_Alloc_mem(size, MPI_INFO_NULL, &out));
        CHECK_OK(MPI_Alloc_mem(size, MPI_INFO_NULL, &in));
        CHECK(out != NULL && in != NULL && out != in);
        CHECK_INT((uintptr_t)out % _Alignof(long double), 0);
        CHECK_INT((uintptr_t)in % _Alignof(long double), 0);
        fill(out, (size_t)size, (unsigned)check_rank);
        CHECK_OK(MPI_Sendrecv(out, (int)size, MPI_BYTE, peer, 1, in, (int)size, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_FILL(in, size, peer);
        CHECK_OK(MPI_Free_mem(out));
        CHECK_OK(MPI_Free_mem(in));
    }
    return check_end();
}
