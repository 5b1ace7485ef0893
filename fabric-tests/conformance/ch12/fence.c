/* Put, get and accumulate between fences, of every size, to every member and oneself.
 *
 * Covers: 12.2.1, 12.3.1, 12.3.2, 12.3.4, 12.5.1
 * Ranks: 1 2 4
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {1, 100, 2000, 30000, 400000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        int n = lengths[l];
        /* A part for each origin of puts, one for sums. */
        int *memory = check_alloc(sizeof(int) * (size_t)n * (size_t)(check_size + 1));
        int *out = check_alloc(sizeof(int) * (size_t)n), *in = check_alloc(sizeof(int) * (size_t)n * (size_t)check_size);
        MPI_Win win;
        CHECK_OK(MPI_Win_create(memory, (MPI_Aint)sizeof(int) * n * (check_size + 1), sizeof(int), MPI_INFO_NULL,
                                MPI_COMM_WORLD, &win));
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < n; i++) out[i] = 1000000 * check_rank + i + round;
            for (int i = 0; i < n * (check_size + 1); i++) memory[i] = 0;
            CHECK_OK(MPI_Win_fence(round == 0 ? MPI_MODE_NOPRECEDE : 0, win));
            for (int t = 0; t < check_size; t++) {
                CHECK_OK(MPI_Put(out, n, MPI_INT, t, (MPI_Aint)n * check_rank, n, MPI_INT, win));
                CHECK_OK(MPI_Accumulate(out, n, MPI_INT, t, (MPI_Aint)n * check_size, n, MPI_INT, MPI_SUM, win));
            }
            CHECK_OK(MPI_Win_fence(0, win));
            for (int s = 0; s < check_size; s++)
                for (int i = 0; i < n; i++)
                    if (memory[s * n + i] != 1000000 * s + i + round) {
                        CHECK_FAIL("put of rank %d, %d ints, element %d: %d", s, n, i, memory[s * n + i]);
                        break;
                    }
            for (int i = 0; i < n; i++) {
                int sum = 1000000 * (check_size * (check_size - 1) / 2) + check_size * (i + round);
                if (memory[check_size * n + i] != sum) {
                    CHECK_FAIL("sum of %d ints, element %d: %d, wanted %d", n, i, memory[check_size * n + i], sum);
                    break;
                }
            }
            for (int t = 0; t < check_size; t++)
                CHECK_OK(MPI_Get(in + t * n, n, MPI_INT, t, (MPI_Aint)n * t, n, MPI_INT, win));
            CHECK_OK(MPI_Win_fence(round == 2 ? MPI_MODE_NOSUCCEED : 0, win));
            for (int t = 0; t < check_size; t++)
                for (int i = 0; i < n; i++)
                    if (in[t * n + i] != 1000000 * t + i + round) {
                        CHECK_FAIL("get from rank %d, %d ints, element %d: %d", t, n, i, in[t * n + i]);
                        break;
                    }
        }
        CHECK_OK(MPI_Win_free(&win));
        CHECK(win == MPI_WIN_NULL);
        free(memory);
        free(out);
        free(in);
    }
    return check_end();
}
