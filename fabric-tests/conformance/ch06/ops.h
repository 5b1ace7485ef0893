/* Every predefined datatype of C, with its class in the table of section 6.9.2. Included by the programs that try every
 * predefined operation on every type it is defined for: EACH_TYPE(X) calls X(MPI handle, C type, class). */
#include <stdbool.h>
#include <complex.h>
#include <wchar.h>

#define EACH_INTEGER(X)                              \
    X(MPI_SIGNED_CHAR, signed char)                  \
    X(MPI_UNSIGNED_CHAR, unsigned char)              \
    X(MPI_SHORT, short)                              \
    X(MPI_UNSIGNED_SHORT, unsigned short)            \
    X(MPI_INT, int)                                  \
    X(MPI_UNSIGNED, unsigned)                        \
    X(MPI_LONG, long)                                \
    X(MPI_UNSIGNED_LONG, unsigned long)              \
    X(MPI_LONG_LONG, long long)                      \
    X(MPI_LONG_LONG_INT, long long)                  \
    X(MPI_UNSIGNED_LONG_LONG, unsigned long long)    \
    X(MPI_INT8_T, int8_t)                            \
    X(MPI_INT16_T, int16_t)                          \
    X(MPI_INT32_T, int32_t)                          \
    X(MPI_INT64_T, int64_t)                          \
    X(MPI_UINT8_T, uint8_t)                          \
    X(MPI_UINT16_T, uint16_t)                        \
    X(MPI_UINT32_T, uint32_t)                        \
    X(MPI_UINT64_T, uint64_t)

#define EACH_ADDRESS(X)       \
    X(MPI_AINT, MPI_Aint)     \
    X(MPI_OFFSET, MPI_Offset) \
    X(MPI_COUNT, MPI_Count)

#define EACH_FLOATING(X)      \
    X(MPI_FLOAT, float)       \
    X(MPI_DOUBLE, double)     \
    X(MPI_LONG_DOUBLE, long double)

#define EACH_COMPLEX(X)                             \
    X(MPI_C_COMPLEX, float _Complex)                \
    X(MPI_C_FLOAT_COMPLEX, float _Complex)          \
    X(MPI_C_DOUBLE_COMPLEX, double _Complex)        \
    X(MPI_C_LONG_DOUBLE_COMPLEX, long double _Complex)

#define COUNT 37
