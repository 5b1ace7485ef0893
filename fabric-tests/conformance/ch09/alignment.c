/* MPI_Alloc_mem aligns as the key mpi_minimum_memory_alignment asks, ignores keys it does not know; a size of 0 is
 * legal.
 *
 * Covers: 9.2, 10
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (size_t alignment = 1; alignment <= 1 << 21; alignment *= 2) {
        char text[32];
        void *memory = NULL;
        MPI_Info info;
        snprintf(text, sizeof text, "%zu", alignment);
        CHECK_OK(MPI_Info_create(&info));
        CHECK_OK(MPI_Info_set(info, "mpi_minimum_memory_alignment", text));
        CHECK_OK(MPI_Info_set(info, "a_key_of_nobody", "whatever"));
        CHECK_OK(MPI_Alloc_mem(1000, info, &memory));
        CHECK_OK(MPI_Info_free(&info));
        CHECK_INT((uintptr_t)memory % alignment, 0);
        memset(memory, 0x5A, 1000);
        CHECK_OK(MPI_Free_mem(memory));
    }
    void *none = &none;
    CHECK_OK(MPI_Alloc_mem(0, MPI_INFO_NULL, &none));
    CHECK_OK(MPI_Free_mem(none));
    return check_end();
}
