/* Canonical packing: bytes of every representation, structures without their gaps, units packed in
 * several calls and unpacked in others. (The sizes of the tables: external32_tables.)
 *
 * MPICH 5.0.2 agrees about LONG and WCHAR in MPI_Pack_external_size, and stops at an assertion of its own when it packs a
 * wide character.
 *
 * Covers: 5.3, 14.5.2
 * Ranks: 1 2
 */
#include "check.h"
#include <complex.h>
#include <stdbool.h>
#include <wchar.h>

static char rep[] = "external32";

static void bytes_are(MPI_Datatype type, const void *value, size_t native, const unsigned char *wanted, int count)
{
    unsigned char out[64], back[64];
    MPI_Aint position = 0;
    memset(out, 0xEE, sizeof out);
    CHECK_OK(MPI_Pack_external(rep, value, 1, type, out, sizeof out, &position));
    CHECK_INT(position, count);
    for (int i = 0; i < count; i++) CHECK_INT(out[i], wanted[i]);
    CHECK_INT(out[count], 0xEE);
    position = 0;
    memset(back, 0, sizeof back);
    CHECK_OK(MPI_Unpack_external(rep, out, count, &position, back, 1, type));
    CHECK_INT(position, count);
    CHECK(memcmp(back, value, native) == 0);
}
#define BYTES(type, ctype, value, ...)                                                       \
    do {                                                                                     \
        ctype value_ = value;                                                                \
        unsigned char wanted_[] = {__VA_ARGS__};                                             \
        bytes_are(type, &value_, sizeof value_, wanted_, (int)sizeof wanted_);               \
    } while (0)

struct mixed {
    char c;
    double d;
    short s;
    long l;
};

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    BYTES(MPI_CHAR, char, 'W', 'W');
    BYTES(MPI_SHORT, short, -2, 0xFF, 0xFE);
    BYTES(MPI_INT, int, 0x01020304, 1, 2, 3, 4);
    BYTES(MPI_UNSIGNED, unsigned, 0xFFFEFDFCu, 0xFF, 0xFE, 0xFD, 0xFC);
    BYTES(MPI_LONG, long, -3, 0xFF, 0xFF, 0xFF, 0xFD);
    BYTES(MPI_UNSIGNED_LONG, unsigned long, 0xFFFFFFFDul, 0xFF, 0xFF, 0xFF, 0xFD);
    BYTES(MPI_LONG_LONG, long long, -256, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0);
    BYTES(MPI_COUNT, MPI_Count, 0x0102030405060708, 1, 2, 3, 4, 5, 6, 7, 8);
    BYTES(MPI_WCHAR, wchar_t, 0x20AC, 0x20, 0xAC);
    BYTES(MPI_C_BOOL, bool, true, 1);
    BYTES(MPI_FLOAT, float, -2.0f, 0xC0, 0, 0, 0);
    BYTES(MPI_DOUBLE, double, 1.5, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0);
    BYTES(MPI_C_FLOAT_COMPLEX, float complex, 1.0f - 2.0f * I, 0x3F, 0x80, 0, 0, 0xC0, 0, 0, 0);
    BYTES(MPI_C_DOUBLE_COMPLEX, double complex, 1.0 - 2.0 * I, 0x3F, 0xF0, 0, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0, 0);
    long double third = 1.0L / 3.0L, again = 0;
    unsigned char quad[16];
    MPI_Aint position = 0;
    CHECK_OK(MPI_Pack_external(rep, &third, 1, MPI_LONG_DOUBLE, quad, 16, &position));
    CHECK_INT(quad[0], 0x3F); /* exponent -2 with bias 16383, then the fraction 1.0101... */
    CHECK_INT(quad[1], 0xFD);
    CHECK_INT(quad[2], 0x55);
    CHECK_INT(quad[8], 0x55);
    position = 0;
    CHECK_OK(MPI_Unpack_external(rep, quad, 16, &position, &again, 1, MPI_LONG_DOUBLE));
    CHECK(again == third);

    /* A structure has no gaps there, and its gaps here stay as they are; the unit goes to the other process as bytes. */
    MPI_Datatype type, types[4] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_LONG};
    int ones[4] = {1, 1, 1, 1};
    MPI_Aint places[4] = {offsetof(struct mixed, c), offsetof(struct mixed, d), offsetof(struct mixed, s),
                          offsetof(struct mixed, l)};
    CHECK_OK(MPI_Type_create_struct(4, ones, places, types, &type));
    CHECK_OK(MPI_Type_commit(&type));
    enum { N = 3000 };
    static struct mixed from[N], to[N];
    memset(to, 0xA5, sizeof to);
    for (int i = 0; i < N; i++) from[i] = (struct mixed){.c = (char)i, .d = i + 0.25, .s = (short)-i, .l = i - 1500};
    MPI_Aint size;
    CHECK_OK(MPI_Pack_external_size(rep, N, type, &size));
    CHECK_INT(size, N * 15);
    unsigned char *unit = malloc((size_t)size), *come = malloc((size_t)size);
    position = 0;
    for (int i = 0; i < N; i += 1000) /* in three calls */
        CHECK_OK(MPI_Pack_external(rep, from + i, 1000, type, unit, size, &position));
    CHECK_INT(position, size);
    int peer = check_size == 1 ? 0 : 1 - check_rank;
    CHECK_OK(MPI_Sendrecv(unit, (int)size, MPI_BYTE, peer, 1, come, (int)size, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                          MPI_STATUS_IGNORE));
    position = 0;
    CHECK_OK(MPI_Unpack_external(rep, come, size, &position, to, 1, type));
    CHECK_OK(MPI_Unpack_external(rep, come, size, &position, to + 1, N - 1, type));
    CHECK_INT(position, size);
    for (int i = 0; i < N; i++)
        if (to[i].c != (char)i || to[i].d != i + 0.25 || to[i].s != (short)-i || to[i].l != i - 1500)
            CHECK_FAIL("element %d", i);
    CHECK_INT(((unsigned char *)to)[1], 0xA5);
    CHECK_OK(MPI_Type_free(&type));
    free(unit);
    free(come);

    /* Room that is too small, another representation. */
    position = 6;
    double d = 1;
    CHECK(MPI_Pack_external(rep, &d, 1, MPI_DOUBLE, quad, 13, &position) != MPI_SUCCESS);
    CHECK_INT(position, 6);
    char other[] = "internal64";
    CHECK(MPI_Pack_external(other, &d, 1, MPI_DOUBLE, quad, 16, &position) != MPI_SUCCESS);
    return check_end();
}
