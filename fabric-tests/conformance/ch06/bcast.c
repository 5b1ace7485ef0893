/* MPI_Bcast from every root, of every size from 0 bytes to some MiB; the root's buffer is only read.
 *
 * Covers: 6.4, 6.1, 2.4.2
 * Ranks: 1 2 3 4 5 8
 * Timeout: 120
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {0, 1, 3, 8, 63, 64, 65, 1000, 4096, 8193, 65536, 100003, 1 << 20, 3000001};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int root = 0; root < check_size; root++) {
            if (lengths[l] > 100003 && root > 1) continue;
            struct guarded data = guarded_new((size_t)lengths[l]);
            if (check_rank == root) fill(data.bytes, data.length, l * 16 + (unsigned)root);
            CHECK_OK(MPI_Bcast(data.bytes, lengths[l], MPI_BYTE, root, MPI_COMM_WORLD));
            CHECK_FILL(data.bytes, data.length, l * 16 + (unsigned)root);
            CHECK_GUARDS(data);
            free(data.whole);
        }
    /* The same signature by different types. */
    int six[6] = {0};
    MPI_Datatype pair;
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    CHECK_OK(MPI_Type_commit(&pair));
    for (int root = 0; root < check_size; root++) {
        for (int i = 0; i < 6; i++) six[i] = check_rank == root ? 10 * root + i : -1;
        CHECK_OK(MPI_Bcast(six, check_rank % 2 ? 3 : 6, check_rank % 2 ? pair : MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < 6; i++) CHECK_INT(six[i], 10 * root + i);
    }
    CHECK_OK(MPI_Type_free(&pair));
    CHECK_OK(MPI_Bcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD));
    return check_end();
}
