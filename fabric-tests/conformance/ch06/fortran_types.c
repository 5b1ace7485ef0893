/* The predefined operations on Fortran's and C++'s types, from C: those that exist here, and the types made by MPI_Type_create_f90_*.
 *
 * The values of Fortran's .TRUE. are a Fortran compiler's and are not looked at.
 *
 * Covers: 6.9.2, 6.9.4, 19.1.9
 * Ranks: 1 2 3 5
 */
#include "check.h"
#include <complex.h>
#include <stdbool.h>

enum { N = 9 };

/* Sums, products and extremes of small whole numbers, which are exact in every type. */
#define NUMBERS(handle, type, has_extremes, has_bits)                                                                \
    if (exists(handle, sizeof(type))) {                                                                              \
        type in[N], out[N];                                                                                          \
        for (int i = 0; i < N; i++) in[i] = (type)(1 + (check_rank + i) % 2);                                        \
        CHECK_OK(MPI_Allreduce(in, out, N, handle, MPI_SUM, MPI_COMM_WORLD));                                        \
        for (int i = 0; i < N; i++) CHECK(out[i] == (type)total(i));                                                 \
        CHECK_OK(MPI_Allreduce(in, out, N, handle, MPI_PROD, MPI_COMM_WORLD));                                       \
        for (int i = 0; i < N; i++) CHECK(out[i] == (type)(1 << (total(i) - check_size)));                           \
        if (has_extremes) {                                                                                          \
            CHECK_OK(MPI_Allreduce(in, out, N, handle, MPI_MAX, MPI_COMM_WORLD));                                    \
            for (int i = 0; i < N; i++) CHECK(out[i] == (type)(total(i) > check_size ? 2 : 1));                      \
            CHECK_OK(MPI_Allreduce(in, out, N, handle, MPI_MIN, MPI_COMM_WORLD));                                    \
            for (int i = 0; i < N; i++) CHECK(out[i] == (type)(total(i) < 2 * check_size ? 1 : 2));                  \
        }                                                                                                            \
        if (has_bits) {                                                                                              \
            CHECK_OK(MPI_Allreduce(in, out, N, handle, MPI_BOR, MPI_COMM_WORLD));                                    \
            for (int i = 0; i < N; i++)                                                                              \
                CHECK(out[i] == (type)((total(i) > check_size ? 2 : 0) | (total(i) < 2 * check_size ? 1 : 0)));      \
        }                                                                                                            \
    }

/* The sum over all processes of what they give. */
static int total(int i)
{
    int sum = 0;
    for (int r = 0; r < check_size; r++) sum += 1 + (r + i) % 2;
    return sum;
}

/* Whether there is such a type, of the size that is expected of it. */
static int exists(MPI_Datatype type, size_t size)
{
    int bytes;
    if (type == MPI_DATATYPE_NULL) return 0;
    CHECK_OK(MPI_Type_size(type, &bytes));
    return bytes == (int)size;
}

#define PAIRS(handle, type)                                                                                   \
    if (exists(handle, 2 * sizeof(type))) {                                                                   \
        type in[2 * N], out[2 * N];                                                                           \
        for (int i = 0; i < N; i++) in[2 * i] = (type)((check_rank + i) % 2), in[2 * i + 1] = (type)(50 - check_rank); \
        for (int least = 0; least < 2; least++) {                                                             \
            CHECK_OK(MPI_Allreduce(in, out, N, handle, least ? MPI_MINLOC : MPI_MAXLOC, MPI_COMM_WORLD));     \
            for (int i = 0; i < N; i++) {                                                                     \
                int value = i % 2, index = 50;                                                                \
                for (int r = 1; r < check_size; r++) {                                                        \
                    int v = (r + i) % 2;                                                                      \
                    if (least ? v < value : v > value) value = v, index = 50 - r;                             \
                    else if (v == value) index = 50 - r;                                                      \
                }                                                                                             \
                CHECK(out[2 * i] == (type)value && out[2 * i + 1] == (type)index);                            \
            }                                                                                                 \
        }                                                                                                     \
    }

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype type;
    NUMBERS(MPI_INTEGER, int, 1, 1)
    NUMBERS(MPI_INTEGER1, int8_t, 1, 1)
    NUMBERS(MPI_INTEGER2, int16_t, 1, 1)
    NUMBERS(MPI_INTEGER4, int32_t, 1, 1)
    NUMBERS(MPI_INTEGER8, int64_t, 1, 1)
    NUMBERS(MPI_REAL, float, 1, 0)
    NUMBERS(MPI_DOUBLE_PRECISION, double, 1, 0)
    NUMBERS(MPI_REAL4, float, 1, 0)
    NUMBERS(MPI_REAL8, double, 1, 0)
    NUMBERS(MPI_COMPLEX, float _Complex, 0, 0)
    NUMBERS(MPI_DOUBLE_COMPLEX, double _Complex, 0, 0)
    NUMBERS(MPI_COMPLEX8, float _Complex, 0, 0)
    NUMBERS(MPI_COMPLEX16, double _Complex, 0, 0)
    NUMBERS(MPI_CXX_FLOAT_COMPLEX, float _Complex, 0, 0)
    NUMBERS(MPI_CXX_DOUBLE_COMPLEX, double _Complex, 0, 0)
    NUMBERS(MPI_CXX_LONG_DOUBLE_COMPLEX, long double _Complex, 0, 0)
    PAIRS(MPI_2INTEGER, int)
    PAIRS(MPI_2REAL, float)
    PAIRS(MPI_2DOUBLE_PRECISION, double)
    if (exists(MPI_CXX_BOOL, sizeof(bool))) {
        bool in[N], out[N];
        for (int i = 0; i < N; i++) in[i] = (check_rank + i) % 2;
        CHECK_OK(MPI_Allreduce(in, out, N, MPI_CXX_BOOL, MPI_LOR, MPI_COMM_WORLD));
        for (int i = 0; i < N; i++) CHECK_INT(out[i], check_size > 1 || i % 2);
        CHECK_OK(MPI_Allreduce(in, out, N, MPI_CXX_BOOL, MPI_LAND, MPI_COMM_WORLD));
        for (int i = 0; i < N; i++) CHECK_INT(out[i], check_size == 1 && i % 2);
    }
    CHECK_OK(MPI_Type_create_f90_integer(9, &type));
    NUMBERS(type, int32_t, 1, 1)
    CHECK_OK(MPI_Type_create_f90_integer(18, &type));
    NUMBERS(type, int64_t, 1, 1)
    CHECK_OK(MPI_Type_create_f90_real(6, 30, &type));
    NUMBERS(type, float, 1, 0)
    CHECK_OK(MPI_Type_create_f90_real(15, 300, &type));
    NUMBERS(type, double, 1, 0)
    CHECK_OK(MPI_Type_create_f90_complex(15, 300, &type));
    NUMBERS(type, double _Complex, 0, 0)
    /* Of false and false comes false, whatever true is. */
    int size;
    char none[64] = {0}, result[64];
    CHECK_OK(MPI_Type_size(MPI_LOGICAL, &size));
    memset(result, 0x77, sizeof result);
    CHECK_OK(MPI_Allreduce(none, result, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD));
    CHECK_BYTES(result, check_size > 1 ? 0 : result[0], check_size > 1 ? size : 0);
    CHECK_OK(MPI_Allreduce(none, result, 1, MPI_LOGICAL, MPI_LXOR, MPI_COMM_WORLD));
    return check_end();
}
