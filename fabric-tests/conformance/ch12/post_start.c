/* Post, start, complete, wait: with groups, with test, several times, nobody outside the groups taking part.
 *
 * Covers: 12.5.2, 12.3.1, 12.3.2
 * Ranks: 2 3 4
 */
#include "check.h"

#define N 20000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int *memory, next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    static int out[N], in[N];
    MPI_Win win;
    MPI_Group all, to, from;
    CHECK_OK(MPI_Win_allocate(sizeof(int) * N, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    CHECK_OK(MPI_Win_get_group(win, &all));
    CHECK_OK(MPI_Group_incl(all, 1, &next, &to));
    CHECK_OK(MPI_Group_incl(all, 1, &before, &from));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < N; i++) out[i] = 100 * check_rank + i + round;
        memset(in, 0xFF, sizeof in);
        CHECK_OK(MPI_Win_post(from, 0, win));
        CHECK_OK(MPI_Win_start(to, 0, win));
        CHECK_OK(MPI_Put(out, N / 2, MPI_INT, next, 0, N / 2, MPI_INT, win));
        CHECK_OK(MPI_Put(out + N / 2, 10, MPI_INT, next, N / 2, 10, MPI_INT, win));
        CHECK_OK(MPI_Win_complete(win));
        if (round % 2) {
            int flag = 0;
            while (!flag) CHECK_OK(MPI_Win_test(win, &flag));
        } else
            CHECK_OK(MPI_Win_wait(win));
        for (int i = 0; i < N / 2 + 10; i++)
            if (memory[i] != 100 * before + i + round) {
                CHECK_FAIL("element %d is %d", i, memory[i]);
                break;
            }
        /* The other way round, with gets. */
        CHECK_OK(MPI_Win_post(to, 0, win));
        CHECK_OK(MPI_Win_start(from, 0, win));
        CHECK_OK(MPI_Get(in, N / 2, MPI_INT, before, 0, N / 2, MPI_INT, win));
        CHECK_OK(MPI_Win_complete(win));
        CHECK_OK(MPI_Win_wait(win));
        int two_before = (before + check_size - 1) % check_size;
        for (int i = 0; i < N / 2; i++)
            if (in[i] != 100 * two_before + i + round) {
                CHECK_FAIL("got element %d: %d", i, in[i]);
                break;
            }
    }
    /* Empty groups. */
    CHECK_OK(MPI_Win_post(MPI_GROUP_EMPTY, 0, win));
    CHECK_OK(MPI_Win_start(MPI_GROUP_EMPTY, 0, win));
    CHECK_OK(MPI_Win_complete(win));
    CHECK_OK(MPI_Win_wait(win));
    CHECK_OK(MPI_Group_free(&all));
    CHECK_OK(MPI_Group_free(&to));
    CHECK_OK(MPI_Group_free(&from));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
