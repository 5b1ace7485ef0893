/* The table of section 6.9.2, every operation on every type: at the ends of the integers' ranges and on values that are exact in every
 * other type, by MPI_Reduce_local, MPI_Allreduce and MPI_Scan. Sums and products that a signed type cannot hold are not looked at,
 * nor what becomes of pairs that the table does not have (quality/op_table). (Intel MPI 2021.18: MPI_MIN on types of MPI_Type_create_f90_integer
 * keeps the second operand.)
 *
 * Covers: 6.9.2, 6.9.3, 6.9.7, 19.1.9
 * Ranks: 1 2 3
 */
#include "check.h"
#include <stdbool.h>

/* Whether the program asks for more than the standard: sums and products of signed integers wrap, other pairs are refused. */
#ifndef STRICT
#define STRICT 0
#endif

typedef __int128 wide;
typedef unsigned __int128 bits;

/* The groups of the section, and those of types that are in none. */
enum group { C_INTEGER, FORTRAN_INTEGER, FLOATING, LOGICAL, TRUTH, COMPLEX, BYTE, MULTI, PAIR, NONE };
enum form { SIGNED, UNSIGNED, REAL, PARTS, OTHER };

struct entry {
    MPI_Datatype type;
    const char *name;
    enum group group;
    enum form form;
    size_t size; /* of an element, or of a part; 0: its values are not looked at */
};

enum { MAX, MIN, SUM, PROD, LAND, BAND, LOR, BOR, LXOR, BXOR, MAXLOC, MINLOC, OPS };
static const char *const op_names[OPS] = {"MPI_MAX", "MPI_MIN", "MPI_SUM", "MPI_PROD", "MPI_LAND", "MPI_BAND", "MPI_LOR", "MPI_BOR",
                                          "MPI_LXOR", "MPI_BXOR", "MPI_MAXLOC", "MPI_MINLOC"};

static int allowed(int op, enum group group)
{
    int integer = group == C_INTEGER || group == FORTRAN_INTEGER || group == MULTI;
    switch (op) {
    case MAX: case MIN: return integer || group == FLOATING;
    case SUM: case PROD: return integer || group == FLOATING || group == COMPLEX;
    case LAND: case LOR: case LXOR: return group == C_INTEGER || group == LOGICAL || group == TRUTH;
    case BAND: case BOR: case BXOR: return integer || group == BYTE;
    default: return group == PAIR;
    }
}

enum { MOST = 10, MOST_BYTES = 32 };

/* An element as a number; `put` cuts the number to the type. */
#define EACH_SIZE(X) X(1, int8_t, uint8_t) X(2, int16_t, uint16_t) X(4, int32_t, uint32_t) X(8, int64_t, uint64_t) X(16, wide, bits)

static wide get(const struct entry *t, const void *at)
{
#define GET(bytes, with_sign, without)                        \
    if (t->size == bytes) {                                   \
        without value;                                        \
        memcpy(&value, at, bytes);                            \
        return t->form == SIGNED ? (wide)(with_sign)value : (wide)value; \
    }
    EACH_SIZE(GET)
    abort();
}

static void put(const struct entry *t, void *at, wide number)
{
#define PUT(bytes, with_sign, without)        \
    if (t->size == bytes) {                   \
        without value = (without)(bits)number; \
        memcpy(at, &value, bytes);            \
    }
    EACH_SIZE(PUT)
}

/* One step on integers; false when the type cannot hold the result and that means nothing. */
static int integer_step(const struct entry *t, int op, wide a, wide b, wide *result)
{
    wide exact;
    int over = 0;
    unsigned char cut[16];
    switch (op) {
    case MAX: *result = a > b ? a : b; return 1;
    case MIN: *result = a < b ? a : b; return 1;
    case LAND: *result = a && b; return 1;
    case LOR: *result = a || b; return 1;
    case LXOR: *result = !a != !b; return 1;
    case BAND: *result = a & b; return 1;
    case BOR: *result = a | b; return 1;
    case BXOR: *result = a ^ b; return 1;
    case SUM: over = __builtin_add_overflow(a, b, &exact), exact = (wide)((bits)a + (bits)b); break;
    default: over = __builtin_mul_overflow(a, b, &exact), exact = (wide)((bits)a * (bits)b); break;
    }
    put(t, cut, exact);
    *result = get(t, cut);
    return t->form == UNSIGNED || STRICT || (!over && *result == exact);
}

/* Ends of the range and what lies beside them. */
static int integers(const struct entry *t, wide *values)
{
    int n = 0;
    wide most = t->form == SIGNED ? (wide)(((bits)1 << (8 * t->size - 1)) - 1) : (wide)(t->size == 16 ? ~(bits)0 : ((bits)1 << 8 * t->size) - 1);
    if (t->group == TRUTH) return values[0] = 0, values[1] = 1, 2;
    if (t->group == LOGICAL) return values[0] = 0, 1; /* .TRUE. is a Fortran compiler's */
    const wide all[] = {0, 1, 2, 3, most, most - 1, most / 2 + 1, -1, -2, -most - 1};
    for (int i = 0; i < MOST; i++)
        if (t->form == SIGNED || all[i] >= 0) values[n++] = all[i];
    return n;
}

/* What is given by rank r at element i, with n values: all pairs of them between neighboring ranks. */
static int which(int r, int i, int n) { return r % 2 ? i / n : i % n; }

/* The call in several forms; `out` holds what is received, and is what Reduce_local combines with. */
enum { LOCAL, ALL, PREFIX, WAYS };

static void combine(int way, const void *in, void *out, int count, MPI_Datatype type, MPI_Op op)
{
    if (way == LOCAL) CHECK_OK(MPI_Reduce_local(in, out, count, type, op));
    else if (way == ALL) CHECK_OK(MPI_Allreduce(in, out, count, type, op, MPI_COMM_WORLD));
    else CHECK_OK(MPI_Scan(in, out, count, type, op, MPI_COMM_WORLD));
}

/* Reduce_local: this rank's operand with the next one's. */
static int first_of(int way) { return way == LOCAL ? check_rank : 0; }
static int last_of(int way) { return way == LOCAL ? check_rank + 1 : way == ALL ? check_size - 1 : check_rank; }

static void try_integers(const struct entry *t, MPI_Op handle, int op)
{
    wide values[MOST];
    int n = integers(t, values), count = n * n;
    unsigned char in[MOST * MOST * 16], out[MOST * MOST * 16 + 1];
    for (int way = LOCAL; way < WAYS; way++) {
        memset(out, 0x55, sizeof out);
        for (int i = 0; i < count; i++) {
            put(t, in + (size_t)i * t->size, values[which(check_rank, i, n)]);
            if (way == LOCAL) put(t, out + (size_t)i * t->size, values[which(check_rank + 1, i, n)]);
        }
        combine(way, in, out, count, t->type, handle);
        for (int i = 0; i < count; i++) {
            wide result = values[which(first_of(way), i, n)], got = get(t, out + (size_t)i * t->size);
            int means = 1;
            for (int r = first_of(way) + 1; r <= last_of(way); r++)
                means &= integer_step(t, op, result, values[which(r, i, n)], &result);
            if (means && got != result)
                CHECK_FAIL("%s on %s, way %d, element %d: got %lld, wanted %lld (lowest 64 bits)", op_names[op], t->name, way, i,
                           (long long)got, (long long)result);
        }
        CHECK_INT(out[(size_t)count * t->size], 0x55);
    }
}

/* Sums and products of three of them are exact in the shortest type. */
static const double reals[] = {0, 1, -1, 0.5, -2.25, 64, -0.125, 7, 3, -40};

static double real_step(int op, double a, double b)
{
    return op == MAX ? (a > b ? a : b) : op == MIN ? (a < b ? a : b) : op == SUM ? a + b : a * b;
}

static double real_get(const struct entry *t, const void *at)
{
    float single;
    double twice;
    long double longest;
    if (t->size == sizeof single) return memcpy(&single, at, sizeof single), single;
    if (t->size == sizeof twice) return memcpy(&twice, at, sizeof twice), twice;
    return memcpy(&longest, at, sizeof longest), (double)longest;
}

static void real_put(const struct entry *t, void *at, double value)
{
    float single = (float)value;
    long double longest = value;
    if (t->size == sizeof single) memcpy(at, &single, sizeof single);
    else if (t->size == sizeof value) memcpy(at, &value, sizeof value);
    else memcpy(at, &longest, sizeof longest);
}

/* Numbers of one part, or of two: values[k] and values[n - 1 - k]. */
static void try_reals(const struct entry *t, MPI_Op handle, int op)
{
    int n = MOST, count = n * n, parts = t->form == PARTS ? 2 : 1;
    static unsigned char in[MOST * MOST * MOST_BYTES], out[MOST * MOST * MOST_BYTES + 1];
    for (int way = LOCAL; way < WAYS; way++) {
        memset(out, 0x55, sizeof out);
        for (int i = 0; i < count; i++)
            for (int p = 0; p < parts; p++) {
                size_t at = (size_t)(i * parts + p) * t->size;
                int k = which(check_rank, i, n), next = which(check_rank + 1, i, n);
                real_put(t, in + at, reals[p ? n - 1 - k : k]);
                if (way == LOCAL) real_put(t, out + at, reals[p ? n - 1 - next : next]);
            }
        combine(way, in, out, count, t->type, handle);
        for (int i = 0; i < count; i++) {
            int k = which(first_of(way), i, n);
            double a[2] = {reals[k], reals[n - 1 - k]};
            for (int r = first_of(way) + 1; r <= last_of(way); r++) {
                int next = which(r, i, n);
                double b[2] = {reals[next], reals[n - 1 - next]}, product[2] = {a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]};
                for (int p = 0; p < parts; p++) a[p] = parts == 2 && op == PROD ? product[p] : real_step(op, a[p], b[p]);
            }
            for (int p = 0; p < parts; p++) {
                double got = real_get(t, out + (size_t)(i * parts + p) * t->size);
                if (got != a[p]) CHECK_FAIL("%s on %s, way %d, element %d: got %g, wanted %g", op_names[op], t->name, way, i, got, a[p]);
            }
        }
        CHECK_INT(out[(size_t)(count * parts) * t->size], 0x55);
    }
}

static void refused(const struct entry *t, MPI_Op handle, int op)
{
    unsigned char in[64] = {0}, out[64] = {0};
    int codes[4];
    MPI_Request request;
    codes[0] = MPI_Allreduce(in, out, 1, t->type, handle, MPI_COMM_WORLD);
    codes[1] = MPI_Reduce_local(in, out, 1, t->type, handle);
    codes[2] = MPI_Iallreduce(in, out, 1, t->type, handle, MPI_COMM_WORLD, &request);
    codes[3] = MPI_Exscan(in, out, 1, t->type, handle, MPI_COMM_WORLD);
    for (int i = 0; i < 4; i++)
        if (check_class_of(codes[i]) != MPI_ERR_OP)
            CHECK_FAIL("%s on %s, call %d: class %d, wanted MPI_ERR_OP", op_names[op], t->name, i, check_class_of(codes[i]));
}

#define T(type, group, form, size) {type, #type, group, form, size}
#define C(type, ctype) T(type, C_INTEGER, (ctype)-1 < (ctype)1 ? SIGNED : UNSIGNED, sizeof(ctype))

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype short_integer, long_integer, single, twice, complex, derived;
    CHECK_OK(MPI_Type_create_f90_integer(9, &short_integer));
    CHECK_OK(MPI_Type_create_f90_integer(18, &long_integer));
    CHECK_OK(MPI_Type_create_f90_real(6, 30, &single));
    CHECK_OK(MPI_Type_create_f90_real(15, 300, &twice));
    CHECK_OK(MPI_Type_create_f90_complex(15, 300, &complex));
    CHECK_OK(MPI_Type_contiguous(1, MPI_INT, &derived));
    CHECK_OK(MPI_Type_commit(&derived));
    const MPI_Op ops[OPS] = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_BAND, MPI_LOR, MPI_BOR, MPI_LXOR, MPI_BXOR, MPI_MAXLOC, MPI_MINLOC};
    const struct entry table[] = {
        C(MPI_INT, int), C(MPI_LONG, long), C(MPI_SHORT, short), C(MPI_UNSIGNED_SHORT, unsigned short), C(MPI_UNSIGNED, unsigned),
        C(MPI_UNSIGNED_LONG, unsigned long), C(MPI_LONG_LONG_INT, long long), C(MPI_LONG_LONG, long long),
        C(MPI_UNSIGNED_LONG_LONG, unsigned long long), C(MPI_SIGNED_CHAR, signed char), C(MPI_UNSIGNED_CHAR, unsigned char),
        C(MPI_INT8_T, int8_t), C(MPI_INT16_T, int16_t), C(MPI_INT32_T, int32_t), C(MPI_INT64_T, int64_t), C(MPI_UINT8_T, uint8_t),
        C(MPI_UINT16_T, uint16_t), C(MPI_UINT32_T, uint32_t), C(MPI_UINT64_T, uint64_t),
        T(MPI_INTEGER, FORTRAN_INTEGER, SIGNED, 4), T(MPI_INTEGER1, FORTRAN_INTEGER, SIGNED, 1), T(MPI_INTEGER2, FORTRAN_INTEGER, SIGNED, 2),
        T(MPI_INTEGER4, FORTRAN_INTEGER, SIGNED, 4), T(MPI_INTEGER8, FORTRAN_INTEGER, SIGNED, 8),
        T(MPI_INTEGER16, FORTRAN_INTEGER, SIGNED, 16), T(short_integer, FORTRAN_INTEGER, SIGNED, 4),
        T(long_integer, FORTRAN_INTEGER, SIGNED, 8),
        T(MPI_FLOAT, FLOATING, REAL, sizeof(float)), T(MPI_DOUBLE, FLOATING, REAL, sizeof(double)),
        T(MPI_LONG_DOUBLE, FLOATING, REAL, sizeof(long double)), T(MPI_REAL, FLOATING, REAL, 4), T(MPI_DOUBLE_PRECISION, FLOATING, REAL, 8),
        T(MPI_REAL4, FLOATING, REAL, 4), T(MPI_REAL8, FLOATING, REAL, 8), T(single, FLOATING, REAL, 4), T(twice, FLOATING, REAL, 8),
        T(MPI_LOGICAL, LOGICAL, UNSIGNED, 4), T(MPI_C_BOOL, TRUTH, UNSIGNED, sizeof(bool)), T(MPI_CXX_BOOL, TRUTH, UNSIGNED, sizeof(bool)),
        T(MPI_COMPLEX, COMPLEX, PARTS, 4), T(MPI_C_COMPLEX, COMPLEX, PARTS, 4), T(MPI_C_FLOAT_COMPLEX, COMPLEX, PARTS, 4),
        T(MPI_C_DOUBLE_COMPLEX, COMPLEX, PARTS, 8), T(MPI_C_LONG_DOUBLE_COMPLEX, COMPLEX, PARTS, sizeof(long double)),
        T(MPI_CXX_FLOAT_COMPLEX, COMPLEX, PARTS, 4), T(MPI_CXX_DOUBLE_COMPLEX, COMPLEX, PARTS, 8),
        T(MPI_CXX_LONG_DOUBLE_COMPLEX, COMPLEX, PARTS, sizeof(long double)), T(complex, COMPLEX, PARTS, 8),
        T(MPI_DOUBLE_COMPLEX, COMPLEX, PARTS, 8), T(MPI_COMPLEX8, COMPLEX, PARTS, 4), T(MPI_COMPLEX16, COMPLEX, PARTS, 8),
        T(MPI_BYTE, BYTE, UNSIGNED, 1),
        T(MPI_AINT, MULTI, SIGNED, sizeof(MPI_Aint)), T(MPI_OFFSET, MULTI, SIGNED, sizeof(MPI_Offset)), T(MPI_COUNT, MULTI, SIGNED, sizeof(MPI_Count)),
        /* Pairs have programs of their own. */
        T(MPI_FLOAT_INT, PAIR, OTHER, 0), T(MPI_DOUBLE_INT, PAIR, OTHER, 0), T(MPI_LONG_INT, PAIR, OTHER, 0), T(MPI_2INT, PAIR, OTHER, 0),
        T(MPI_SHORT_INT, PAIR, OTHER, 0), T(MPI_LONG_DOUBLE_INT, PAIR, OTHER, 0), T(MPI_2REAL, PAIR, OTHER, 0),
        T(MPI_2DOUBLE_PRECISION, PAIR, OTHER, 0), T(MPI_2INTEGER, PAIR, OTHER, 0),
        T(MPI_CHAR, NONE, OTHER, 0), T(MPI_WCHAR, NONE, OTHER, 0), T(MPI_CHARACTER, NONE, OTHER, 0), T(MPI_PACKED, NONE, OTHER, 0),
        T(derived, NONE, OTHER, 0)};
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        const struct entry *t = &table[k];
        int bytes = 0;
        /* Some of Fortran's and C++'s exist with some compilers only. */
        if (t->type == MPI_DATATYPE_NULL || MPI_Type_size(t->type, &bytes) != MPI_SUCCESS || bytes <= 0) continue;
        if (t->size != 0 && (size_t)bytes != t->size * (t->form == PARTS ? 2 : 1)) continue;
        for (int op = 0; op < OPS; op++) {
            if (!allowed(op, t->group)) {
                if (STRICT) refused(t, ops[op], op);
                continue;
            }
            if (t->form == REAL || t->form == PARTS) try_reals(t, ops[op], op);
            else if (t->form != OTHER) try_integers(t, ops[op], op);
        }
    }
    CHECK_OK(MPI_Type_free(&derived));
    int sum = 0;
    CHECK_OK(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_INT(sum, check_size);
    return check_end();
}
