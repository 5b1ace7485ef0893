/* Get_accumulate, Fetch_and_op, Compare_and_swap on every kind of type; order of operations of one origin.
 *
 * Covers: 12.3.4, 12.7.1, 12.7.2
 * Ranks: 1 2 3
 */
#include "check.h"

#define N 30000

#define ONE_TYPE(c_type, type, start)                                                            \
    do {                                                                                         \
        c_type compare_ = (c_type)(start), new_ = (c_type)((start) + 5), result_ = 0;            \
        CHECK_OK(MPI_Put(&compare_, 1, type, target, 0, 1, type, win));                          \
        CHECK_OK(MPI_Win_flush(target, win));                                                    \
        CHECK_OK(MPI_Compare_and_swap(&new_, &compare_, &result_, type, target, 0, win));        \
        CHECK_OK(MPI_Win_flush(target, win));                                                    \
        CHECK(result_ == compare_);                                                              \
        CHECK_OK(MPI_Compare_and_swap(&compare_, &compare_, &result_, type, target, 0, win));    \
        CHECK_OK(MPI_Win_flush(target, win));                                                    \
        CHECK(result_ == new_);                                                                  \
        CHECK_OK(MPI_Fetch_and_op(NULL, &result_, type, target, 0, MPI_NO_OP, win));             \
        CHECK_OK(MPI_Win_flush(target, win));                                                    \
        CHECK(result_ == new_);                                                                  \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int target = (check_rank + 1) % check_size;
    char *memory;
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate(N * sizeof(double), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win));
    ONE_TYPE(signed char, MPI_SIGNED_CHAR, 7);
    ONE_TYPE(short, MPI_SHORT, 300);
    ONE_TYPE(int, MPI_INT, -70000);
    ONE_TYPE(long long, MPI_LONG_LONG, 1LL << 40);
    ONE_TYPE(uint64_t, MPI_UINT64_T, 1ULL << 50);
    ONE_TYPE(MPI_Aint, MPI_AINT, 1000);
    /* Types of no size that hardware swaps. */
    double number = 2.5, was = 0;
    struct {
        double value;
        int place;
    } pair = {3.5, 4}, larger = {9.5, 6}, seen = {0, 0};
    CHECK_OK(MPI_Fetch_and_op(&number, &was, MPI_DOUBLE, target, 0, MPI_REPLACE, win));
    CHECK_OK(MPI_Win_flush(target, win));
    CHECK_OK(MPI_Fetch_and_op(&number, &was, MPI_DOUBLE, target, 0, MPI_PROD, win));
    CHECK_OK(MPI_Win_flush(target, win));
    CHECK(was == 2.5);
    CHECK_OK(MPI_Fetch_and_op(&number, &was, MPI_DOUBLE, target, 0, MPI_SUM, win));
    CHECK_OK(MPI_Win_flush(target, win));
    CHECK(was == 6.25);
    CHECK_OK(MPI_Accumulate(&pair, 1, MPI_DOUBLE_INT, target, 64, 1, MPI_DOUBLE_INT, MPI_REPLACE, win));
    CHECK_OK(MPI_Get_accumulate(&larger, 1, MPI_DOUBLE_INT, &seen, 1, MPI_DOUBLE_INT, target, 64, 1, MPI_DOUBLE_INT, MPI_MAXLOC, win));
    CHECK_OK(MPI_Win_flush(target, win));
    CHECK(seen.value == 3.5 && seen.place == 4);
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_DATATYPE_NULL, &seen, 1, MPI_DOUBLE_INT, target, 64, 1, MPI_DOUBLE_INT, MPI_NO_OP, win));
    CHECK_OK(MPI_Win_flush(target, win));
    CHECK(seen.value == 9.5 && seen.place == 6);
    /* Large ones, in order: replace, sum, small replace in the middle, fetch. */
    static double first[N], second[N], result[N];
    for (int i = 0; i < N; i++) {
        first[i] = i;
        second[i] = 2 * i;
    }
    number = -1;
    CHECK_OK(MPI_Accumulate(first, N, MPI_DOUBLE, target, 0, N, MPI_DOUBLE, MPI_REPLACE, win));
    CHECK_OK(MPI_Accumulate(second, N, MPI_DOUBLE, target, 0, N, MPI_DOUBLE, MPI_SUM, win));
    CHECK_OK(MPI_Accumulate(&number, 1, MPI_DOUBLE, target, 20000 * sizeof(double), 1, MPI_DOUBLE, MPI_REPLACE, win));
    CHECK_OK(MPI_Get_accumulate(first, N, MPI_DOUBLE, result, N, MPI_DOUBLE, target, 0, N, MPI_DOUBLE, MPI_SUM, win));
    CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_DOUBLE, second, N, MPI_DOUBLE, target, 0, N, MPI_DOUBLE, MPI_NO_OP, win));
    CHECK_OK(MPI_Win_unlock(target, win));
    for (int i = 0; i < N; i++) {
        double wanted = i == 20000 ? -1 : 3.0 * i;
        if (result[i] != wanted || second[i] != wanted + i) {
            CHECK_FAIL("element %d: %g, then %g", i, result[i], second[i]);
            break;
        }
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
