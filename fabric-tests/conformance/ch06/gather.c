/* MPI_Gather and MPI_Gatherv to every root: blocks in rank order, gaps between them untouched, MPI_IN_PLACE at the root,
 * arguments that are not significant are not looked at.
 *
 * Covers: 6.5, 2.3, 6.1
 * Ranks: 1 2 3 4 5 8
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, counts[16], displs[16];
    static const int sizes[] = {0, 1, 5, 300, 20000};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int root = 0; root < n; root++)
            for (int in_place = 0; in_place < 2; in_place++) {
                int count = sizes[s];
                int *mine = check_alloc(sizeof(int) * (size_t)(count + n)), *all = NULL;
                for (int i = 0; i < count + n; i++) mine[i] = check_rank * 1000000 + i;
                if (check_rank == root) {
                    all = check_alloc(sizeof(int) * (size_t)(count * n + 1));
                    for (int i = 0; i <= count * n; i++) all[i] = -7;
                    if (in_place)
                        for (int i = 0; i < count; i++) all[root * count + i] = mine[i];
                }
                if (check_rank == root && in_place)
                    CHECK_OK(MPI_Gather(MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, all, count, MPI_INT, root, MPI_COMM_WORLD));
                else if (check_rank == root)
                    CHECK_OK(MPI_Gather(mine, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD));
                else /* The receive arguments mean nothing here. */
                    CHECK_OK(MPI_Gather(mine, count, MPI_INT, NULL, -3, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD));
                if (check_rank == root) {
                    for (int peer = 0; peer < n; peer++)
                        for (int i = 0; i < count; i++) CHECK_INT(all[peer * count + i], peer * 1000000 + i);
                    CHECK_INT(all[n * count], -7);
                    free(all);
                }

                /* Blocks of different lengths, in reverse order, with gaps of two. */
                int at = 1;
                for (int peer = n - 1; peer >= 0; peer--) {
                    counts[peer] = count == 0 ? 0 : count + (peer * 3) % n;
                    displs[peer] = at;
                    at += counts[peer] + 2;
                }
                if (check_rank == root) {
                    all = check_alloc(sizeof(int) * (size_t)at);
                    for (int i = 0; i < at; i++) all[i] = -7;
                    if (in_place)
                        for (int i = 0; i < counts[root]; i++) all[displs[root] + i] = mine[i];
                    if (in_place)
                        CHECK_OK(MPI_Gatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, displs, MPI_INT, root, MPI_COMM_WORLD));
                    else
                        CHECK_OK(MPI_Gatherv(mine, counts[root], MPI_INT, all, counts, displs, MPI_INT, root, MPI_COMM_WORLD));
                    int *seen = check_alloc((size_t)at * sizeof(int));
                    memset(seen, 0, (size_t)at * sizeof(int));
                    for (int peer = 0; peer < n; peer++)
                        for (int i = 0; i < counts[peer]; i++) {
                            CHECK_INT(all[displs[peer] + i], peer * 1000000 + i);
                            seen[displs[peer] + i] = 1;
                        }
                    for (int i = 0; i < at; i++)
                        if (!seen[i]) CHECK_INT(all[i], -7);
                    free(seen);
                    free(all);
                } else
                    CHECK_OK(MPI_Gatherv(mine, counts[check_rank], MPI_INT, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD));
                for (int i = 0; i < count + n; i++) CHECK_INT(mine[i], check_rank * 1000000 + i);
                free(mine);
            }
    return check_end();
}
