/* MPI_Allgather and MPI_Allgatherv: every rank has all blocks in rank order, gaps untouched; MPI_IN_PLACE.
 *
 * Covers: 6.7, 6.1
 * Ranks: 1 2 3 4 5 8
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, counts[16], displs[16];
    static const int sizes[] = {0, 1, 2, 17, 1000, 30000};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int in_place = 0; in_place < 2; in_place++) {
            int count = sizes[s];
            long *mine = check_alloc(sizeof(long) * (size_t)(count + n));
            long *all = check_alloc(sizeof(long) * (size_t)((count + 1) * n + 1));
            for (int i = 0; i < count + n; i++) mine[i] = check_rank * 10000000L + i;
            for (int i = 0; i < (count + 1) * n + 1; i++) all[i] = -7;
            if (in_place) {
                for (int i = 0; i < count; i++) all[check_rank * count + i] = mine[i];
                CHECK_OK(MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, all, count, MPI_LONG, MPI_COMM_WORLD));
            } else
                CHECK_OK(MPI_Allgather(mine, count, MPI_LONG, all, count, MPI_LONG, MPI_COMM_WORLD));
            for (int peer = 0; peer < n; peer++)
                for (int i = 0; i < count; i++) CHECK_INT(all[peer * count + i], peer * 10000000L + i);
            for (int i = count * n; i < (count + 1) * n + 1; i++) CHECK_INT(all[i], -7);
            free(all);

            int at = 2;
            for (int peer = n - 1; peer >= 0; peer--) {
                /* Some ranks give nothing. */
                counts[peer] = peer % 3 == 2 ? 0 : count + peer % 2;
                displs[peer] = at;
                at += counts[peer] + 1;
            }
            all = check_alloc(sizeof(long) * (size_t)at);
            char *seen = check_alloc((size_t)at);
            memset(seen, 0, (size_t)at);
            for (int i = 0; i < at; i++) all[i] = -7;
            if (in_place) {
                for (int i = 0; i < counts[check_rank]; i++) all[displs[check_rank] + i] = mine[i];
                CHECK_OK(MPI_Allgatherv(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, all, counts, displs, MPI_LONG, MPI_COMM_WORLD));
            } else
                CHECK_OK(MPI_Allgatherv(mine, counts[check_rank], MPI_LONG, all, counts, displs, MPI_LONG, MPI_COMM_WORLD));
            for (int peer = 0; peer < n; peer++)
                for (int i = 0; i < counts[peer]; i++) {
                    CHECK_INT(all[displs[peer] + i], peer * 10000000L + i);
                    seen[displs[peer] + i] = 1;
                }
            for (int i = 0; i < at; i++)
                if (!seen[i]) CHECK_INT(all[i], -7);
            free(seen);
            free(all);
            free(mine);
        }
    return check_end();
}
