/* Derived types at origin and target, freed right after the call; bytes in gaps stay as they were.
 *
 * Covers: 12.3.1, 12.3.2, 12.3.4, 12.5.6
 * Ranks: 1 2
 */
#include "check.h"

#define ROWS 40
#define COLUMNS 60

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int target = (check_rank + 1) % check_size, source = (check_rank + check_size - 1) % check_size;
    static int memory[ROWS][COLUMNS], out[ROWS], in[ROWS];
    MPI_Win win;
    MPI_Datatype column, backwards;
    CHECK_OK(MPI_Win_create(memory, sizeof memory, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) memory[i][k] = -1;
    for (int i = 0; i < ROWS; i++) out[i] = 100 * check_rank + i;
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
    CHECK_OK(MPI_Type_commit(&column));
    CHECK_OK(MPI_Put(out, ROWS, MPI_INT, target, 7, 1, column, win));
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) CHECK_INT(memory[i][k], k == 7 ? 100 * source + i : -1);
    CHECK_OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &column));
    CHECK_OK(MPI_Type_commit(&column));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Accumulate(out, ROWS, MPI_INT, target, 7, 1, column, MPI_SUM, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) CHECK_INT(memory[i][k], k == 7 ? 2 * (100 * source + i) : -1);
    /* The origin backwards. */
    CHECK_OK(MPI_Type_vector(ROWS, 1, -1, MPI_INT, &backwards));
    CHECK_OK(MPI_Type_commit(&backwards));
    memset(in, 0xFF, sizeof in);
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Get(in + ROWS - 1, 1, backwards, target, 7, 1, column, win));
    CHECK_OK(MPI_Type_free(&backwards));
    CHECK_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < ROWS; i++) CHECK_INT(in[ROWS - 1 - i], 2 * (100 * check_rank + i));
    /* Part of the target's elements only. */
    CHECK_OK(MPI_Put(out, 5, MPI_INT, target, 9, 1, column, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < ROWS; i++) CHECK_INT(memory[i][9], i < 5 ? 100 * source + i : -1);
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
