/* Places where implementations of datatypes have been wrong: extents that run backwards in messages, distributed arrays of elements with
 * gaps, pairs cut in the middle, types without bytes and counts of them, duplicates and when they are committed, contents with more
 * room than is needed, types by size and their bounds, long double in "external32", blocks beyond 4 GiB on either side of a buffer.
 *
 * MPICH 5.0.2 forgets the bounds of a type without bytes in contiguous ones (5.1.2: the markers of its type map), and calls the delete function of
 * a freed type only when its duplicates are freed as well (7.7.4); the rest passes there.
 *
 * Covers: 3.2.5, 5.1.2, 5.1.4, 5.1.7, 5.1.9, 5.1.10, 5.1.11, 5.1.12, 5.1.13, 5.2, 5.3, 14.5.2, 19.1.9
 * Ranks: 1
 */
#include "check.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <sys/mman.h>

static char rep[] = "external32";

/* What is sent to oneself and received with another type. */
static void pass(const void *out, int outcount, MPI_Datatype outtype, void *in, int incount, MPI_Datatype intype, MPI_Status *status)
{
    CHECK_OK(MPI_Sendrecv(out, outcount, outtype, 0, 3, in, incount, intype, 0, 3, MPI_COMM_SELF, status));
}

/* Elements one before the other: a message turns an array round, whichever side has the negative extent (5.1.7, 5.1.11). */
static void backwards(void)
{
    enum { N = 1000 };
    static int from[N], to[N], again[N];
    MPI_Datatype back, two, pair;
    int position = 0;
    MPI_Status status;
    for (int i = 0; i < N; i++) from[i] = i;
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, -(MPI_Aint)sizeof(int), &back));
    CHECK_OK(MPI_Type_commit(&back));
    pass(from + N - 1, N, back, to, N, MPI_INT, &status);
    for (int i = 0; i < N; i++) CHECK_INT(to[i], N - 1 - i);
    pass(from, N, MPI_INT, to + N - 1, N, back, &status);
    for (int i = 0; i < N; i++) CHECK_INT(to[i], N - 1 - i);
    CHECK_OK(MPI_Pack(from + N - 1, N, back, again, sizeof again, &position, MPI_COMM_SELF));
    for (int i = 0; i < N; i++) CHECK_INT(again[i], N - 1 - i);
    /* Pairs whose members lie forwards, one pair before the other; and a block of them is a type again. */
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &two));
    CHECK_OK(MPI_Type_create_resized(two, 0, -2 * (MPI_Aint)sizeof(int), &pair));
    CHECK_OK(MPI_Type_free(&two));
    CHECK_OK(MPI_Type_contiguous(N / 2, pair, &two));
    CHECK_OK(MPI_Type_commit(&two));
    pass(from + N - 2, 1, two, to, N, MPI_INT, &status);
    for (int i = 0; i < N; i += 2) {
        CHECK_INT(to[i], N - 2 - i);
        CHECK_INT(to[i + 1], N - 1 - i);
    }
    CHECK_OK(MPI_Type_free(&back));
    CHECK_OK(MPI_Type_free(&pair));
    CHECK_OK(MPI_Type_free(&two));
}

/* A distributed array whose elements are larger than their data: blocks are whole extents apart (5.1.4). */
static void distributed_elements_with_gaps(void)
{
    enum { ROWS = 7, COLUMNS = 5, PROCESSES = 6 };
    struct cell { short number; short gap; } array[ROWS * COLUMNS];
    short part[ROWS * COLUMNS], seen[ROWS * COLUMNS] = {0};
    const int gsizes[2] = {ROWS, COLUMNS}, distribs[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC};
    const int dargs[2] = {2, 3}, psizes[2] = {3, 2};
    MPI_Datatype cell, type;
    for (int i = 0; i < ROWS * COLUMNS; i++) array[i] = (struct cell){(short)i, -1};
    CHECK_OK(MPI_Type_create_resized(MPI_SHORT, 0, sizeof(struct cell), &cell));
    for (int rank = 0; rank < PROCESSES; rank++) {
        int position = 0, at = 0, bytes;
        MPI_Aint lb, extent;
        CHECK_OK(MPI_Type_create_darray(PROCESSES, rank, 2, gsizes, distribs, dargs, psizes, MPI_ORDER_FORTRAN, cell, &type));
        CHECK_OK(MPI_Type_commit(&type));
        CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
        CHECK_INT(lb, 0);
        CHECK_INT(extent, sizeof array);
        CHECK_OK(MPI_Pack(array, 1, type, part, sizeof part, &position, MPI_COMM_SELF));
        /* In Fortran's order the first index runs fastest; the process grid is in rows all the same. */
        for (int column = 0; column < COLUMNS; column++)
            for (int row = 0; row < ROWS; row++)
                if (row / 2 % 3 == rank / 2 && column / 3 % 2 == rank % 2) {
                    CHECK_INT(part[at], column * ROWS + row);
                    seen[part[at++]]++;
                }
        CHECK_INT(position, at * (int)sizeof(short));
        CHECK_OK(MPI_Type_size(type, &bytes));
        CHECK_INT(bytes, position);
        CHECK_OK(MPI_Type_free(&type));
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) CHECK_INT(seen[i], 1);
    CHECK_OK(MPI_Type_free(&cell));
}

/* Messages that end inside a pair: its members are elements, whole pairs counts (5.1.11). */
static void pairs_cut_in_the_middle(void)
{
    struct { double value; int index; } from[4], to[4];
    struct pair_and_double { double value; int index; double more; } cut = {.value = 1, .index = 2, .more = 3};
    const int ones[3] = {1, 1, 1};
    const MPI_Aint places[3] = {0, 8, 16};
    const MPI_Datatype members[3] = {MPI_DOUBLE, MPI_INT, MPI_DOUBLE};
    MPI_Datatype three, nested;
    MPI_Status status;
    int count;
    MPI_Count large;
    memset(to, 0xA5, sizeof to);
    for (int i = 0; i < 4; i++) from[i].value = i + 0.5, from[i].index = i;
    CHECK_OK(MPI_Type_create_struct(3, ones, places, members, &three));
    CHECK_OK(MPI_Type_commit(&three));
    pass(&cut, 1, three, to, 4, MPI_DOUBLE_INT, &status);
    CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE_INT, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_elements(&status, MPI_DOUBLE_INT, &count));
    CHECK_INT(count, 3);
    CHECK_OK(MPI_Get_elements_c(&status, MPI_DOUBLE_INT, &large));
    CHECK_INT(large, 3);
    CHECK(to[0].value == 1 && to[0].index == 2 && to[1].value == 3);
    CHECK_INT(((unsigned char *)&to[1].index)[0], 0xA5);
    /* Whole pairs, and pairs inside a derived type that is not filled. */
    CHECK_OK(MPI_Type_contiguous(3, MPI_DOUBLE_INT, &nested));
    CHECK_OK(MPI_Type_commit(&nested));
    pass(from, 2, MPI_DOUBLE_INT, to, 1, nested, &status);
    CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE_INT, &count));
    CHECK_INT(count, 2);
    CHECK_OK(MPI_Get_count(&status, nested, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_elements(&status, nested, &count));
    CHECK_INT(count, 4);
    /* A message that ends inside a basic element is no whole number of them. */
    pass(from, 9, MPI_BYTE, to, 64, MPI_BYTE, &status);
    CHECK_OK(MPI_Get_elements(&status, MPI_DOUBLE_INT, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    /* What is put into a status comes out of it in the type's units. */
    CHECK_OK(MPI_Status_set_elements(&status, MPI_DOUBLE_INT, 5));
    CHECK_OK(MPI_Get_elements(&status, MPI_DOUBLE_INT, &count));
    CHECK_INT(count, 5);
    CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE_INT, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Type_free(&three));
    CHECK_OK(MPI_Type_free(&nested));
}

/* Types without bytes: any number of them is no byte, whatever their extent (3.2.5, 5.1.2). */
static void nothing_in_great_number(void)
{
    MPI_Datatype none, wide, many;
    MPI_Status status;
    MPI_Aint lb, extent;
    int number = 77, count, position = 2;
    char byte[4] = "abc";
    CHECK_OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &none));
    CHECK_OK(MPI_Type_create_resized(none, -8, 1 << 20, &wide));
    CHECK_OK(MPI_Type_commit(&wide));
    CHECK_OK(MPI_Type_get_extent(wide, &lb, &extent));
    CHECK_INT(lb, -8);
    CHECK_INT(extent, 1 << 20);
    CHECK_OK(MPI_Type_get_true_extent(wide, &lb, &extent));
    CHECK_INT(extent, 0);
    pass(byte, INT_MAX, wide, &number, INT_MAX, wide, &status);
    CHECK_INT(number, 77);
    CHECK_OK(MPI_Get_count(&status, wide, &count));
    CHECK_INT(count, 0);
    CHECK_OK(MPI_Get_elements(&status, wide, &count));
    CHECK_INT(count, 0);
    CHECK_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_INT(count, 0);
    CHECK_OK(MPI_Pack(&number, INT_MAX, wide, byte, 2, &position, MPI_COMM_SELF));
    CHECK_INT(position, 2);
    CHECK_OK(MPI_Unpack(byte, 2, &position, &number, INT_MAX, wide, MPI_COMM_SELF));
    CHECK_INT(position, 2);
    CHECK_OK(MPI_Type_contiguous(1000000, wide, &many));
    CHECK_OK(MPI_Type_commit(&many));
    CHECK_OK(MPI_Type_get_extent(many, &lb, &extent));
    CHECK_INT(lb, -8);
    CHECK_INT(extent, (MPI_Aint)1000000 << 20);
    pass(byte, 0, MPI_INT, &number, 3, many, &status);
    CHECK_INT(number, 77);
    CHECK_OK(MPI_Type_free(&many));
    CHECK_OK(MPI_Type_free(&wide));
    CHECK_OK(MPI_Type_free(&none));
}

static int copies, deletes;
static int copied(MPI_Datatype type, int key, void *state, void *in, void *out, int *flag)
{
    (void)type, (void)key, (void)state;
    copies++;
    *(void **)out = in;
    *flag = in != NULL;
    return MPI_SUCCESS;
}
static int deleted(MPI_Datatype type, int key, void *value, void *state)
{
    (void)type, (void)key, (void)value, (void)state;
    deletes++;
    return MPI_SUCCESS;
}

/* A duplicate is committed if the original was when it was made, and knows nothing of it afterwards (5.1.10, 7.7.4, 7.8). */
static void duplicates(void)
{
    MPI_Datatype type, before, after, third;
    char name[MPI_MAX_OBJECT_NAME];
    int numbers[4] = {1, 2, 3, 4}, got[4] = {0}, key, length, flag, position = 0, ni, na, nd, combiner;
    void *value;
    CHECK_OK(MPI_Type_create_keyval(copied, deleted, &key, NULL));
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &type));
    CHECK_OK(MPI_Type_set_name(type, "every second"));
    CHECK_OK(MPI_Type_set_attr(type, key, NULL));
    CHECK_OK(MPI_Type_dup(type, &before));
    CHECK_INT(copies, 1);
    CHECK_OK(MPI_Type_get_attr(before, key, &value, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_set_attr(type, key, &numbers));
    CHECK_INT(deletes, 1);
    CHECK_OK(MPI_Type_dup(type, &after));
    CHECK_OK(MPI_Type_get_attr(after, key, &value, &flag));
    CHECK(flag && value == &numbers);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_INT(deletes, 2);
    /* The first was made of one that was not committed, and is not; derived types made of it do not mind. */
    CHECK_CLASS(MPI_Pack(numbers, 1, before, got, sizeof got, &position, MPI_COMM_SELF), MPI_ERR_TYPE);
    CHECK_OK(MPI_Pack(numbers, 1, after, got, sizeof got, &position, MPI_COMM_SELF));
    CHECK(got[0] == 1 && got[1] == 3 && position == 8);
    CHECK_OK(MPI_Type_get_name(after, name, &length));
    CHECK_INT(length, 0);
    CHECK_OK(MPI_Type_get_envelope(after, &ni, &na, &nd, &combiner));
    CHECK_INT(combiner, MPI_COMBINER_DUP);
    /* Contents of a duplicate of a predefined type is that type, and a duplicate may be freed. */
    CHECK_OK(MPI_Type_dup(MPI_DOUBLE, &third));
    CHECK_OK(MPI_Type_get_contents(third, 0, 0, 1, NULL, NULL, &type));
    CHECK(type == MPI_DOUBLE);
    double in = 2.5, sum = 0;
    pass(&in, 1, third, &sum, 1, MPI_DOUBLE, MPI_STATUS_IGNORE);
    CHECK(sum == 2.5);
    CHECK_OK(MPI_Type_free(&third));
    CHECK_OK(MPI_Type_free(&before));
    CHECK_OK(MPI_Type_free(&after));
    CHECK_INT(deletes, 3);
    CHECK_OK(MPI_Type_free_keyval(&key));
}

/* Contents into arrays that are longer than needed: what is behind stays as it was (5.1.13). */
static void roomy_contents(void)
{
    int integers[9], blocks[2] = {2, 3};
    MPI_Aint places[2] = {8, 64}, addresses[6];
    MPI_Datatype members[2] = {MPI_INT, MPI_CHAR}, types[5], type;
    for (int i = 0; i < 9; i++) integers[i] = -77;
    for (int i = 0; i < 6; i++) addresses[i] = -77;
    for (int i = 0; i < 5; i++) types[i] = MPI_DATATYPE_NULL;
    CHECK_OK(MPI_Type_create_struct(2, blocks, places, members, &type));
    CHECK_OK(MPI_Type_get_contents(type, 9, 6, 5, integers, addresses, types));
    CHECK(integers[0] == 2 && integers[1] == 2 && integers[2] == 3 && integers[3] == -77);
    CHECK(addresses[0] == 8 && addresses[1] == 64 && addresses[2] == -77);
    CHECK(types[0] == MPI_INT && types[1] == MPI_CHAR && types[2] == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Type_free(&type));
}

/* The bytes of binary128, and that every long double comes back as it was (14.5.2). */
static void long_doubles(void)
{
    static const struct { long double value; unsigned char begins[4]; } known[] = {
        {0.0L, {0, 0, 0, 0}},        {-0.0L, {0x80, 0, 0, 0}},      {1.0L, {0x3F, 0xFF, 0, 0}},
        {-2.5L, {0xC0, 0x00, 0x40}}, {0.5L, {0x3F, 0xFE, 0, 0}},    {1e300L, {0x43, 0xE3, 0x7E, 0x43}},
        {INFINITY, {0x7F, 0xFF, 0}}, {-INFINITY, {0xFF, 0xFF, 0, 0}}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        unsigned char bytes[17];
        long double again = 7;
        MPI_Aint position = 0;
        memset(bytes, 0xEE, sizeof bytes);
        CHECK_OK(MPI_Pack_external(rep, &known[i].value, 1, MPI_LONG_DOUBLE, bytes, 16, &position));
        CHECK_INT(position, 16);
        CHECK_INT(bytes[16], 0xEE);
        if (memcmp(bytes, known[i].begins, 4))
            CHECK_FAIL("%Lg: %02x %02x %02x %02x", known[i].value, bytes[0], bytes[1], bytes[2], bytes[3]);
        position = 0;
        CHECK_OK(MPI_Unpack_external(rep, bytes, 16, &position, &again, 1, MPI_LONG_DOUBLE));
        if (again != known[i].value || signbit(again) != signbit(known[i].value)) CHECK_FAIL("%Lg came back as %Lg", known[i].value, again);
    }
    long double edges[5] = {LDBL_MAX, LDBL_MIN, LDBL_MIN * LDBL_EPSILON, LDBL_EPSILON, NAN}, back[5];
    unsigned char unit[80];
    MPI_Aint position = 0;
    CHECK_OK(MPI_Pack_external(rep, edges, 5, MPI_LONG_DOUBLE, unit, sizeof unit, &position));
    position = 0;
    CHECK_OK(MPI_Unpack_external(rep, unit, sizeof unit, &position, back, 5, MPI_LONG_DOUBLE));
    for (int i = 0; i < 4; i++)
        if (edges[i] != back[i]) CHECK_FAIL("%Lg came back as %Lg", edges[i], back[i]);
    CHECK(isnan(back[4]));
}

/* Types by size: each class and size has one, named, of that size; sizes that no type has are refused (19.1.9). */
static void types_by_size(void)
{
    MPI_Datatype type;
    const int classes[3] = {MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL, MPI_TYPECLASS_COMPLEX};
    for (int i = 0; i < 3; i++)
        for (int bytes = -1; bytes <= 40; bytes++) {
            int size = -1, length = 0;
            char name[MPI_MAX_OBJECT_NAME] = "";
            type = MPI_DATATYPE_NULL;
            if (MPI_Type_match_size(classes[i], bytes, &type) != MPI_SUCCESS) {
                CHECK(bytes < 4 || bytes % 4 != 0 || bytes >= 12 || (i == 2 && bytes == 4));
                continue;
            }
            CHECK_OK(MPI_Type_size(type, &size));
            CHECK_INT(size, bytes);
            CHECK_OK(MPI_Type_get_name(type, name, &length));
            CHECK(length > 4 && memcmp(name, "MPI_", 4) == 0);
            /* It is a predefined one: usable at once, not to be freed. */
            MPI_Datatype same = type;
            CHECK(MPI_Type_free(&same) != MPI_SUCCESS);
        }
    CHECK_CLASS(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type), MPI_ERR_ARG);
}

/* Blocks 5 GiB before and behind an address that itself is not memory, on memory that is only reserved (5.1.2, 5.1.12). */
static void far_apart(void)
{
    const MPI_Aint far = (MPI_Aint)5 << 30;
    char *room = mmap(NULL, (size_t)(2 * far) + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(room != MAP_FAILED);
    if (room == MAP_FAILED) return;
    MPI_Datatype around, absolute;
    MPI_Aint lb, extent, places[3] = {far, 0, -far}, addresses[3];
    const int ones[3] = {1, 1, 1};
    const MPI_Datatype ints[3] = {MPI_INT, MPI_INT, MPI_INT};
    int numbers[3] = {10, 20, 30}, got[3] = {0};
    MPI_Status status;
    CHECK_OK(MPI_Type_create_hindexed(3, ones, places, MPI_INT, &around));
    CHECK_OK(MPI_Type_commit(&around));
    CHECK_OK(MPI_Type_get_extent(around, &lb, &extent));
    CHECK_INT(lb, -far);
    CHECK_INT(extent, 2 * far + 4);
    pass(numbers, 3, MPI_INT, room + far, 1, around, &status);
    CHECK_INT(*(int *)(room + 2 * far), 10);
    CHECK_INT(*(int *)(room + far), 20);
    CHECK_INT(*(int *)room, 30);
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Get_address(room + far + places[2 - i], &addresses[i]));
    CHECK_OK(MPI_Type_create_struct(3, ones, addresses, ints, &absolute));
    CHECK_OK(MPI_Type_commit(&absolute));
    pass(MPI_BOTTOM, 1, absolute, got, 3, MPI_INT, &status);
    CHECK(got[0] == 30 && got[1] == 20 && got[2] == 10);
    CHECK_OK(MPI_Type_free(&around));
    CHECK_OK(MPI_Type_free(&absolute));
    munmap(room, (size_t)(2 * far) + 4096);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    backwards();
    distributed_elements_with_gaps();
    pairs_cut_in_the_middle();
    nothing_in_great_number();
    duplicates();
    roomy_contents();
    long_doubles();
    types_by_size();
    far_apart();
    return check_end();
}
