/* The forms with large counts do what the others do; results of several targets come in one epoch.
 *
 * Covers: 12.2.1, 12.3.1, 12.3.2, 12.3.4
 * Ranks: 2 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int *memory, out[20], in[8][20], old[20];
    MPI_Win win;
    MPI_Aint size, unit;
    void *base;
    CHECK_OK(MPI_Win_allocate_c(100 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    CHECK_OK(MPI_Win_shared_query_c(win, check_rank, &size, &unit, &base));
    CHECK(size == 0 || (unit == sizeof(int) && size == 100 * sizeof(int) && base == memory));
    for (int i = 0; i < 100; i++) memory[i] = 0;
    for (int i = 0; i < 20; i++) out[i] = 10 * check_rank + i;
    CHECK_OK(MPI_Win_fence(0, win));
    for (int t = 0; t < check_size; t++) {
        CHECK_OK(MPI_Put_c(out, 20, MPI_INT, t, 20 * check_rank, 20, MPI_INT, win));
        CHECK_OK(MPI_Accumulate_c(out, 20, MPI_INT, t, 60, 20, MPI_INT, MPI_SUM, win));
    }
    CHECK_OK(MPI_Win_fence(0, win));
    for (int t = 0; t < check_size; t++) CHECK_OK(MPI_Get_c(in[t], 20, MPI_INT, t, 20 * check_rank, 20, MPI_INT, win));
    CHECK_OK(MPI_Get_accumulate_c(NULL, 0, MPI_INT, old, 20, MPI_INT, 0, 60, 20, MPI_INT, MPI_NO_OP, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (int t = 0; t < check_size; t++)
        for (int i = 0; i < 20; i++) CHECK_INT(in[t][i], 10 * check_rank + i);
    for (int i = 0; i < 20; i++) CHECK_INT(old[i], 10 * (check_size * (check_size - 1) / 2) + check_size * i);
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
