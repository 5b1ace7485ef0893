/* Accumulating operations on target types of very many short runs: a matrix that is added, fetched and replaced transposed, whole and from a
 * type of several elements.
 *
 * Covers: 12.3.4
 * Ranks: 1 2 3
 */
#include "check.h"

#define N 300

static int mine[N * N], out[N * N], in[N * N];

static void wanted(const char *what, const int *got, int by, int transposed)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            int added = transposed ? j * N + i : i * N + j;
            if (got[i * N + j] != (transposed ? i * N + j : j * N + i) + by * added) {
                CHECK_FAIL("%s: element %d, %d is %d", what, i, j, got[i * N + j]);
                return;
            }
        }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype column, next_column, transposed;
    MPI_Win win;
    int to = (check_rank + 1) % check_size;
    CHECK_OK(MPI_Type_vector(N, 1, N, MPI_INT, &column));
    CHECK_OK(MPI_Type_create_resized(column, 0, sizeof(int), &next_column));
    CHECK_OK(MPI_Type_contiguous(N, next_column, &transposed));
    CHECK_OK(MPI_Type_commit(&next_column));
    CHECK_OK(MPI_Type_commit(&transposed));
    for (int i = 0; i < N * N; i++) mine[i] = out[i] = i;
    CHECK_OK(MPI_Win_create(mine, sizeof mine, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Accumulate(out, N * N, MPI_INT, to, 0, 1, transposed, MPI_SUM, win));
    CHECK_OK(MPI_Win_fence(0, win));
    wanted("sum", mine, 1, 1);
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Get_accumulate(out, N * N, MPI_INT, in, N * N, MPI_INT, to, 0, N, next_column, MPI_SUM, win));
    CHECK_OK(MPI_Win_fence(0, win));
    /* What was there, in the order of the transposed elements. */
    wanted("fetched", in, 1, 0);
    wanted("sum of columns", mine, 2, 1);
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_INT, in, 1, transposed, to, 0, 1, transposed, MPI_NO_OP, win));
    CHECK_OK(MPI_Win_fence(0, win));
    wanted("looked at", in, 2, 1);
    CHECK_OK(MPI_Accumulate(out, 1, transposed, to, 0, N * N, MPI_INT, MPI_REPLACE, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            if (mine[i * N + j] != j * N + i) {
                CHECK_FAIL("replaced: element %d, %d is %d", i, j, mine[i * N + j]);
                i = j = N;
            }
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Type_free(&next_column));
    CHECK_OK(MPI_Type_free(&transposed));
    return check_end();
}
