/* The sizes of tables 14.2 to 14.4 for every type that this library and its compilers have, and of Fortran's parameterised types
 * (19.1.9): what is packed is that long, and no byte behind the elements is written.
 *
 * MPICH 5.0.2 stops at an assertion of its own when it packs a wide character.
 *
 * Covers: 5.3, 14.5.2, 19.1.9
 * Ranks: 1
 */
#include "check.h"

static char rep[] = "external32";

/* A type may be missing (a handle that is null, or a size that is undefined): then nothing is asked of it. */
static void length_is(MPI_Datatype type, const char *name, long wanted)
{
    MPI_Count native, size_c, lb, extent;
    MPI_Aint size, position = 0;
    unsigned char from[4][32], to[5][32], out[4 * 32 + 1];
    if (type == MPI_DATATYPE_NULL) return;
    CHECK_OK(MPI_Type_size_c(type, &native));
    if (native == MPI_UNDEFINED || native == 0) return;
    CHECK_OK(MPI_Type_get_extent_c(type, &lb, &extent));
    CHECK_OK(MPI_Pack_external_size(rep, 4, type, &size));
    CHECK_OK(MPI_Pack_external_size_c(rep, 4, type, &size_c));
    if (size != 4 * wanted || size_c != 4 * wanted)
        CHECK_FAIL("4 x %s: %ld and %ld bytes, wanted %ld", name, (long)size, (long)size_c, 4 * wanted);
    /* Zeros are numbers of every type. */
    memset(from, 0, sizeof from);
    memset(to, 0xA5, sizeof to);
    memset(out, 0xEE, sizeof out);
    CHECK_OK(MPI_Pack_external(rep, from, 4, type, out, sizeof out, &position));
    CHECK_INT(position, 4 * wanted);
    CHECK_BYTES(out, 0, 4 * wanted);
    CHECK_INT(out[4 * wanted], 0xEE);
    position = 0;
    CHECK_OK(MPI_Unpack_external(rep, out, 4 * wanted, &position, to, 4, type));
    CHECK_INT(position, 4 * wanted);
    CHECK_INT(((unsigned char *)to)[4 * extent], 0xA5);
}
#define LENGTH(type, bytes) length_is(type, #type, bytes)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    /* Table 14.2. */
    LENGTH(MPI_PACKED, 1); LENGTH(MPI_BYTE, 1); LENGTH(MPI_CHAR, 1); LENGTH(MPI_UNSIGNED_CHAR, 1); LENGTH(MPI_SIGNED_CHAR, 1);
    LENGTH(MPI_WCHAR, 2); LENGTH(MPI_SHORT, 2); LENGTH(MPI_UNSIGNED_SHORT, 2); LENGTH(MPI_INT, 4); LENGTH(MPI_LONG, 4);
    LENGTH(MPI_UNSIGNED, 4); LENGTH(MPI_UNSIGNED_LONG, 4); LENGTH(MPI_LONG_LONG_INT, 8); LENGTH(MPI_UNSIGNED_LONG_LONG, 8);
    LENGTH(MPI_FLOAT, 4); LENGTH(MPI_DOUBLE, 8); LENGTH(MPI_LONG_DOUBLE, 16); LENGTH(MPI_C_BOOL, 1); LENGTH(MPI_INT8_T, 1);
    LENGTH(MPI_INT16_T, 2); LENGTH(MPI_INT32_T, 4); LENGTH(MPI_INT64_T, 8); LENGTH(MPI_UINT8_T, 1); LENGTH(MPI_UINT16_T, 2);
    LENGTH(MPI_UINT32_T, 4); LENGTH(MPI_UINT64_T, 8); LENGTH(MPI_AINT, 8); LENGTH(MPI_COUNT, 8); LENGTH(MPI_OFFSET, 8);
    LENGTH(MPI_C_COMPLEX, 8); LENGTH(MPI_C_FLOAT_COMPLEX, 8); LENGTH(MPI_C_DOUBLE_COMPLEX, 16);
    LENGTH(MPI_C_LONG_DOUBLE_COMPLEX, 32);
    LENGTH(MPI_CHARACTER, 1); LENGTH(MPI_LOGICAL, 4); LENGTH(MPI_INTEGER, 4); LENGTH(MPI_REAL, 4);
    LENGTH(MPI_DOUBLE_PRECISION, 8); LENGTH(MPI_COMPLEX, 8); LENGTH(MPI_DOUBLE_COMPLEX, 16);
    LENGTH(MPI_CXX_BOOL, 1); LENGTH(MPI_CXX_FLOAT_COMPLEX, 8); LENGTH(MPI_CXX_DOUBLE_COMPLEX, 16);
    LENGTH(MPI_CXX_LONG_DOUBLE_COMPLEX, 32);
    /* Table 14.3; what the Fortran compiler lacks has no size. */
    LENGTH(MPI_INTEGER1, 1); LENGTH(MPI_INTEGER2, 2); LENGTH(MPI_INTEGER4, 4); LENGTH(MPI_INTEGER8, 8); LENGTH(MPI_INTEGER16, 16);
    LENGTH(MPI_REAL2, 2); LENGTH(MPI_REAL4, 4); LENGTH(MPI_REAL8, 8); LENGTH(MPI_REAL16, 16);
    LENGTH(MPI_COMPLEX4, 4); LENGTH(MPI_COMPLEX8, 8); LENGTH(MPI_COMPLEX16, 16); LENGTH(MPI_COMPLEX32, 32);

    /* 19.1.9: by precision and range, whatever the type is here. */
    static const int reals[][3] = {{6, 37, 4}, {3, 2, 4}, {7, 37, 8}, {6, 38, 8}, {15, 307, 8}, {16, 307, 16}, {18, 308, 16}};
    static const int integers[][2] = {{2, 1}, {3, 2}, {4, 2}, {5, 4}, {9, 4}, {10, 8}, {18, 8}, {19, 16}, {38, 16}};
    MPI_Datatype type;
    char name[64];
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        int p = reals[i][0], r = reals[i][1];
        snprintf(name, sizeof name, "F90_REAL(%d, %d)", p, r);
        if (MPI_Type_create_f90_real(p, r, &type) == MPI_SUCCESS) length_is(type, name, reals[i][2]);
        snprintf(name, sizeof name, "F90_COMPLEX(%d, %d)", p, r);
        if (MPI_Type_create_f90_complex(p, r, &type) == MPI_SUCCESS) length_is(type, name, 2 * reals[i][2]);
    }
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        snprintf(name, sizeof name, "F90_INTEGER(%d)", integers[i][0]);
        if (MPI_Type_create_f90_integer(integers[i][0], &type) == MPI_SUCCESS) length_is(type, name, integers[i][1]);
    }

    /* Pairs for reductions: their members, without what lies between. */
    LENGTH(MPI_2INT, 8); LENGTH(MPI_SHORT_INT, 6); LENGTH(MPI_FLOAT_INT, 8); LENGTH(MPI_DOUBLE_INT, 12); LENGTH(MPI_LONG_INT, 8);
    LENGTH(MPI_LONG_DOUBLE_INT, 20); LENGTH(MPI_2INTEGER, 8); LENGTH(MPI_2REAL, 8); LENGTH(MPI_2DOUBLE_PRECISION, 16);
    return check_end();
}
