/* MPI_Scatter and MPI_Scatterv from every root: each rank gets its block and nothing else, MPI_IN_PLACE at the root,
 * arguments that are not significant are not looked at.
 *
 * Covers: 6.6, 2.3, 6.1
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
                int count = sizes[s], *all = NULL;
                int room = count + n + 1, *mine = check_alloc(sizeof(int) * (size_t)room);
                for (int i = 0; i < room; i++) mine[i] = -7;
                if (check_rank == root) {
                    all = check_alloc(sizeof(int) * (size_t)(count * n));
                    for (int i = 0; i < count * n; i++) all[i] = root * 1000000 + i;
                    if (in_place)
                        CHECK_OK(MPI_Scatter(all, count, MPI_INT, MPI_IN_PLACE, -5, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD));
                    else
                        CHECK_OK(MPI_Scatter(all, count, MPI_INT, mine, count, MPI_INT, root, MPI_COMM_WORLD));
                    for (int i = 0; i < count * n; i++) CHECK_INT(all[i], root * 1000000 + i);
                    free(all);
                } else
                    CHECK_OK(MPI_Scatter(NULL, -3, MPI_DATATYPE_NULL, mine, count, MPI_INT, root, MPI_COMM_WORLD));
                int got = check_rank == root && in_place ? 0 : count;
                for (int i = 0; i < got; i++) CHECK_INT(mine[i], root * 1000000 + check_rank * count + i);
                for (int i = got; i < room; i++) CHECK_INT(mine[i], -7);

                int at = 1;
                for (int peer = n - 1; peer >= 0; peer--) {
                    counts[peer] = count == 0 ? 0 : count + (peer * 3) % n;
                    displs[peer] = at;
                    at += counts[peer] + 2;
                }
                for (int i = 0; i < room; i++) mine[i] = -7;
                if (check_rank == root) {
                    all = check_alloc(sizeof(int) * (size_t)at);
                    for (int i = 0; i < at; i++) all[i] = root * 1000000 + i;
                    if (in_place)
                        CHECK_OK(MPI_Scatterv(all, counts, displs, MPI_INT, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, root, MPI_COMM_WORLD));
                    else
                        CHECK_OK(MPI_Scatterv(all, counts, displs, MPI_INT, mine, counts[root], MPI_INT, root, MPI_COMM_WORLD));
                    free(all);
                } else
                    CHECK_OK(MPI_Scatterv(NULL, NULL, NULL, MPI_DATATYPE_NULL, mine, counts[check_rank], MPI_INT, root, MPI_COMM_WORLD));
                got = check_rank == root && in_place ? 0 : counts[check_rank];
                for (int i = 0; i < got; i++) CHECK_INT(mine[i], root * 1000000 + displs[check_rank] + i);
                for (int i = got; i < room; i++) CHECK_INT(mine[i], -7);
                free(mine);
            }
    return check_end();
}
