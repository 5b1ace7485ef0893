/* What this library and its peers were found to agree on: the elements of 400 distributed arrays in order, and the bytes of
 * "external32" for every kind of number, packed by one call and unpacked by another. With the word "print" every result is
 * printed as a line of its own, for diff against another implementation; sums over the lines are compared with those that the
 * implementations below gave.
 *
 * Open MPI 5.0.11 gives every line as it stands here. MPICH 5.0.2 and 4.3.2 give those of the arrays and the numbers, and die of
 * an illegal instruction when they pack the structure. Intel MPI 2021.18 gives the lines of the numbers; in
 * 131 of the 1,570 types of the arrays it puts the elements of a cyclic dimension side by side that 5.1.4 puts apart by the
 * extent of what has been distributed before (cyclic() there: psize * darg * ex), and it leaves the members of structures in the
 * processor's order (14.5.2: all data are big-endian).
 *
 * Left out, as no two agree: LONG (MPI_Pack_external_size of Open MPI says 8 bytes each and its packing takes 4; 14.5.2, table
 * 14.2 says 4; MPICH and we agree) and LONG DOUBLE (Open MPI and Intel MPI swap the bytes of the x87 number, MPICH shortens the
 * fraction; 14.5.2 wants binary128). Both are held against the tables in external32.c.
 *
 * Covers: 5.1.4, 5.3, 14.5.2
 * Ranks: 1
 */
#include "check.h"
#include <complex.h>
#include <stdarg.h>
#include <stdbool.h>

static unsigned long long sum = 14695981039346656037ull;
static int printing;

static void say(const char *format, ...)
{
    char text[8192];
    va_list words;
    va_start(words, format);
    int length = vsnprintf(text, sizeof text, format, words);
    va_end(words);
    CHECK(length < (int)sizeof text);
    for (int i = 0; i < length; i++) sum = (sum ^ (unsigned char)text[i]) * 1099511628211ull;
    if (printing) fputs(text, stdout);
}

static unsigned seed = 20261121;
static int below(int limit)
{
    seed = seed * 1103515245u + 12345u;
    return (int)((seed >> 8) % (unsigned)limit);
}

/* ---- distributed arrays ---- */

enum { DIMS = 4, MOST = 4096 };

static void darray(void)
{
    static int array[MOST], part[MOST];
    int ndims = 1 + below(DIMS), gsizes[DIMS], distribs[DIMS], dargs[DIMS], psizes[DIMS], size = 1, total = 1;
    for (int i = 0; i < ndims; i++) {
        gsizes[i] = 1 + below(7);
        psizes[i] = 1 + below(3);
        if (psizes[i] > gsizes[i]) psizes[i] = gsizes[i];
        int even = (gsizes[i] + psizes[i] - 1) / psizes[i], how = below(5);
        /* Everybody has elements: what a process without them gets is in darray.c. */
        while (even * (psizes[i] - 1) >= gsizes[i]) psizes[i]--, even = (gsizes[i] + psizes[i] - 1) / psizes[i];
        switch (how) {
        case 0: distribs[i] = MPI_DISTRIBUTE_NONE, psizes[i] = 1, dargs[i] = MPI_DISTRIBUTE_DFLT_DARG; break;
        case 1: distribs[i] = MPI_DISTRIBUTE_BLOCK, dargs[i] = MPI_DISTRIBUTE_DFLT_DARG; break;
        case 2: distribs[i] = MPI_DISTRIBUTE_BLOCK, dargs[i] = even; break;
        case 3: distribs[i] = MPI_DISTRIBUTE_CYCLIC, dargs[i] = MPI_DISTRIBUTE_DFLT_DARG; break;
        default: distribs[i] = MPI_DISTRIBUTE_CYCLIC, dargs[i] = 1 + below(even);
        }
        size *= psizes[i];
        total *= gsizes[i];
    }
    int order = below(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    for (int i = 0; i < MOST; i++) array[i] = i;
    for (int rank = 0; rank < size; rank++) {
        MPI_Datatype type;
        MPI_Aint lb, extent;
        int bytes, position = 0;
        CHECK_OK(MPI_Type_create_darray(size, rank, ndims, gsizes, distribs, dargs, psizes, order, MPI_INT, &type));
        CHECK_OK(MPI_Type_commit(&type));
        CHECK_OK(MPI_Type_size(type, &bytes));
        CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
        CHECK_INT(extent, total * 4);
        CHECK(bytes <= (int)sizeof part);
        CHECK_OK(MPI_Pack(array, 1, type, part, sizeof part, &position, MPI_COMM_SELF));
        say("darray %s", order == MPI_ORDER_C ? "C" : "Fortran");
        for (int i = 0; i < ndims; i++)
            say(" %d/%d:%s", gsizes[i], psizes[i],
                distribs[i] == MPI_DISTRIBUTE_NONE    ? "none"
                : distribs[i] == MPI_DISTRIBUTE_BLOCK ? "block"
                                                      : "cyclic");
        say(" rank %d: lb %ld extent %ld packed %d elements", rank, (long)lb, (long)extent, position);
        for (int i = 0; i < bytes / 4; i++) say(" %d", part[i]);
        say("\n");
        /* And back: every element of this process, and no other, is where it was. */
        static int again[MOST];
        memset(again, 0xFF, sizeof again);
        position = 0;
        CHECK_OK(MPI_Unpack(part, bytes, &position, again, 1, type, MPI_COMM_SELF));
        int found = 0;
        for (int i = 0; i < MOST; i++) {
            found += again[i] == i;
            CHECK(again[i] == i || again[i] == -1);
        }
        CHECK_INT(found, bytes / 4);
        CHECK_OK(MPI_Type_free(&type));
    }
}

/* ---- external32 ---- */

static void external(const char *name, MPI_Datatype type, const void *values, int count, size_t bytes)
{
    static unsigned char out[8192], back[8192];
    MPI_Aint size = -1, position = 0;
    CHECK_OK(MPI_Pack_external_size("external32", count, type, &size));
    CHECK(size > 0 && size <= (MPI_Aint)sizeof out);
    memset(out, 0, sizeof out);
    CHECK_OK(MPI_Pack_external("external32", values, count, type, out, sizeof out, &position));
    say("external32 %s: %ld bytes, packed %ld:", name, (long)size, (long)position);
    for (MPI_Aint i = 0; i < position; i++) say(" %02x", out[i]);
    MPI_Aint end = 0;
    memset(back, 0x77, sizeof back);
    CHECK_OK(MPI_Unpack_external("external32", out, position, &end, back, count, type));
    say(" back %ld %s\n", (long)end, memcmp(back, values, bytes) ? "changed" : "same");
}

#define EXTERNAL(type, ctype, ...)                                                            \
    do {                                                                                      \
        ctype values_[] = {__VA_ARGS__};                                                      \
        external(#type, type, values_, (int)(sizeof values_ / sizeof *values_), sizeof values_); \
    } while (0)

struct mixed {
    char c;
    double d;
    short s;
    int i[3];
    float f;
};

static void externals(void)
{
    EXTERNAL(MPI_CHAR, char, 'a', 'Z', 0, 127);
    EXTERNAL(MPI_SIGNED_CHAR, signed char, -128, -1, 0, 127);
    EXTERNAL(MPI_UNSIGNED_CHAR, unsigned char, 0, 1, 128, 255);
    EXTERNAL(MPI_BYTE, unsigned char, 0, 1, 128, 255);
    EXTERNAL(MPI_SHORT, short, -32768, -2, 0, 258, 32767);
    EXTERNAL(MPI_UNSIGNED_SHORT, unsigned short, 0, 258, 65535);
    EXTERNAL(MPI_INT, int, -2147483647 - 1, -2, 0, 16909060, 2147483647);
    EXTERNAL(MPI_UNSIGNED, unsigned, 0, 16909060, 4294967295u);
    EXTERNAL(MPI_LONG_LONG, long long, -9223372036854775807ll - 1, -2, 0, 72623859790382856ll);
    EXTERNAL(MPI_UNSIGNED_LONG_LONG, unsigned long long, 0, 72623859790382856ull, 18446744073709551615ull);
    EXTERNAL(MPI_INT8_T, signed char, -128, 127);
    EXTERNAL(MPI_INT16_T, short, -32768, 258);
    EXTERNAL(MPI_INT32_T, int, -2, 16909060);
    EXTERNAL(MPI_INT64_T, long long, -2, 72623859790382856ll);
    EXTERNAL(MPI_UINT8_T, unsigned char, 1, 255);
    EXTERNAL(MPI_UINT16_T, unsigned short, 258, 65535);
    EXTERNAL(MPI_UINT32_T, unsigned, 16909060, 4294967295u);
    EXTERNAL(MPI_UINT64_T, unsigned long long, 72623859790382856ull);
    EXTERNAL(MPI_FLOAT, float, 0.0f, -0.0f, 1.0f, -2.5f, 3.4028235e38f, 1e-45f, 1.0f / 0.0f);
    EXTERNAL(MPI_DOUBLE, double, 0.0, -0.0, 1.0, -2.5, 1.7976931348623157e308, 5e-324, -1.0 / 0.0);
    EXTERNAL(MPI_C_FLOAT_COMPLEX, float complex, 1.0f - 2.0f * I);
    EXTERNAL(MPI_C_DOUBLE_COMPLEX, double complex, 1.0 - 2.0 * I);
    EXTERNAL(MPI_AINT, MPI_Aint, -2, 72623859790382856l);
    EXTERNAL(MPI_COUNT, MPI_Count, -2, 72623859790382856l);
    EXTERNAL(MPI_OFFSET, MPI_Offset, -2, 72623859790382856l);
    EXTERNAL(MPI_C_BOOL, bool, false, true, true);

    double row[12];
    MPI_Datatype vector;
    memset(row, 0x77, sizeof row);
    for (int i = 0; i < 12; i += 3) row[i] = i + 0.5;
    CHECK_OK(MPI_Type_vector(4, 1, 3, MPI_DOUBLE, &vector));
    CHECK_OK(MPI_Type_commit(&vector));
    external("a vector", vector, row, 1, 10 * sizeof(double));
    CHECK_OK(MPI_Type_free(&vector));
}

/* What lies in the gaps of a structure does not travel. */
static void structure(void)
{
    MPI_Datatype mixed, types[5] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT, MPI_FLOAT};
    int lengths[5] = {1, 1, 1, 3, 1};
    MPI_Aint places[5] = {offsetof(struct mixed, c), offsetof(struct mixed, d), offsetof(struct mixed, s),
                          offsetof(struct mixed, i), offsetof(struct mixed, f)};
    struct mixed values[3];
    memset(values, 0x77, sizeof values);
    for (int k = 0; k < 3; k++) {
        values[k].c = (char)('x' + k);
        values[k].d = k - 1.25;
        values[k].s = (short)(-k * 300);
        for (int i = 0; i < 3; i++) values[k].i[i] = k * 65537 - i;
        values[k].f = (float)k / 4;
    }
    CHECK_OK(MPI_Type_create_struct(5, lengths, places, types, &mixed));
    CHECK_OK(MPI_Type_commit(&mixed));
    external("a structure", mixed, values, 3, sizeof values);
    CHECK_OK(MPI_Type_free(&mixed));
}

/* All lines so far, and what they were when this was written. */
static void agree(const char *what, unsigned long long wanted)
{
    if (printing) printf("sum %s %llx\n", what, sum);
    if (sum != wanted) CHECK_FAIL("%s: the lines of \"print\" are not those that were agreed on (%llx)", what, sum);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    printing = argc > 1 && !strcmp(argv[1], "print");
    for (int round = 0; round < 400; round++) darray();
    agree("arrays", 0x9913ef7d7bc58a31ull);
    externals();
    agree("numbers", 0xaf4ac8a19dc72e21ull);
    structure();
    agree("structure", 0xf47451c306cef9dbull);
    return check_end();
}
