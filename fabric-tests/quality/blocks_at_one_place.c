/* Receive blocks of MPI_Allgatherv that lie at one place, which the standard forbids: what is there afterwards is of no use, but the call ends,
 * and so does whatever follows. When all blocks have the same content, that is what is there.
 *
 * Covers: 6.7
 * Ranks: 1 2 3 4 5
 */
#include "check.h"

#define MOST (1 << 20)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    char *out = malloc(MOST), *in = malloc(MOST);
    int *counts = malloc(sizeof(int) * (size_t)check_size), *places = calloc((size_t)check_size, sizeof(int));
    for (int bytes = 1; bytes <= MOST; bytes *= 16)
        for (int uneven = 0; uneven < 2; uneven++)
            for (int in_place = 0; in_place < 2; in_place++) {
                memset(out, 7, (size_t)bytes);
                memset(in, in_place ? 7 : 0, (size_t)bytes);
                for (int i = 0; i < check_size; i++) counts[i] = uneven ? bytes / (i + 1) : bytes;
                const void *from = in_place ? MPI_IN_PLACE : out;
                MPI_Request request;
                CHECK_OK(MPI_Allgatherv(from, counts[check_rank], MPI_BYTE, in, counts, places, MPI_BYTE, MPI_COMM_WORLD));
                CHECK_OK(MPI_Iallgatherv(from, counts[check_rank], MPI_BYTE, in, counts, places, MPI_BYTE, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                int wrong = 0;
                for (int i = 0; i < bytes; i++) wrong += in[i] != 7;
                CHECK_INT(wrong, 0);
            }
    free(out);
    free(in);
    free(counts);
    free(places);
    return check_end();
}
