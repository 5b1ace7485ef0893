/* The small examples of chapter 5 entry by entry: in which order the bytes of a type are packed is its type map. Examples 5.9, 5.11 and
 * those from 5.12 on are programs of their own (bounds, examples), 5.7 is one of darray.
 *
 * Covers: 5.1, 5.1.2, 5.1.5, 5.1.9
 * Ranks: 1
 */
#include "check.h"

enum { ROOM = 512, ORIGIN = 128 };

struct entry {
    int at, bytes;
};

/* Packs memory in which every byte tells where it is. */
static void map_is(MPI_Datatype type, const char *what, const struct entry *wanted, int entries)
{
    unsigned char memory[ROOM], packed[ROOM];
    int position = 0, next = 0;
    for (int i = 0; i < ROOM; i++) memory[i] = (unsigned char)(i & 255);
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Pack(memory + ORIGIN, 1, type, packed, ROOM, &position, MPI_COMM_SELF));
    for (int i = 0; i < entries; i++)
        for (int k = 0; k < wanted[i].bytes; k++, next++)
            if (packed[next] != (unsigned char)(ORIGIN + wanted[i].at + k)) {
                CHECK_FAIL("%s: entry %d is not at %d", what, i, wanted[i].at);
                return;
            }
    CHECK_INT(position, next);
}
#define MAP(type, what, ...)                                                             \
    do {                                                                                 \
        const struct entry wanted_[] = {__VA_ARGS__};                                    \
        map_is(type, what, wanted_, (int)(sizeof wanted_ / sizeof *wanted_));            \
        if (type != pair) CHECK_OK(MPI_Type_free(&type));                                \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype pair, type, two[2] = {MPI_DOUBLE, MPI_CHAR};
    int ones[2] = {1, 1};
    MPI_Aint places[2] = {0, 8}, lb, extent;

    /* 5.1: a double and a character, and the other way round. */
    struct { char c; double d; } reversed;
    MPI_Datatype other_two[2] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Aint other_places[2] = {0, offsetof(__typeof__(reversed), d)};
    CHECK_OK(MPI_Type_create_struct(2, ones, places, two, &pair));
    CHECK_OK(MPI_Type_get_extent(pair, &lb, &extent));
    CHECK_INT(extent, 16);
    MAP(pair, "example 5.1", {0, 8}, {8, 1});
    CHECK_OK(MPI_Type_create_struct(2, ones, other_places, other_two, &type));
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK_INT(extent, (MPI_Aint)sizeof reversed);
    MAP(type, "example 5.1", {0, 1}, {8, 8});

    CHECK_OK(MPI_Type_contiguous(3, pair, &type));
    MAP(type, "example 5.2", {0, 8}, {8, 1}, {16, 8}, {24, 1}, {32, 8}, {40, 1});
    CHECK_OK(MPI_Type_vector(2, 3, 4, pair, &type));
    MAP(type, "example 5.3", {0, 8}, {8, 1}, {16, 8}, {24, 1}, {32, 8}, {40, 1}, {64, 8}, {72, 1}, {80, 8}, {88, 1}, {96, 8},
        {104, 1});
    CHECK_OK(MPI_Type_vector(3, 1, -2, pair, &type));
    MAP(type, "example 5.4", {0, 8}, {8, 1}, {-32, 8}, {-24, 1}, {-64, 8}, {-56, 1});
    CHECK_OK(MPI_Type_create_hvector(3, 1, -32, pair, &type));
    MAP(type, "example 5.4 in bytes", {0, 8}, {8, 1}, {-32, 8}, {-24, 1}, {-64, 8}, {-56, 1});
    int lengths[2] = {3, 1}, displacements[2] = {4, 0};
    MPI_Aint bytes[2] = {64, 0};
    CHECK_OK(MPI_Type_indexed(2, lengths, displacements, pair, &type));
    MAP(type, "example 5.5", {64, 8}, {72, 1}, {80, 8}, {88, 1}, {96, 8}, {104, 1}, {0, 8}, {8, 1});
    CHECK_OK(MPI_Type_create_hindexed(2, lengths, bytes, pair, &type));
    MAP(type, "example 5.5 in bytes", {64, 8}, {72, 1}, {80, 8}, {88, 1}, {96, 8}, {104, 1}, {0, 8}, {8, 1});
    int b[3] = {2, 1, 3};
    MPI_Aint d[3] = {0, 16, 26};
    MPI_Datatype t[3] = {MPI_FLOAT, pair, MPI_CHAR};
    CHECK_OK(MPI_Type_create_struct(3, b, d, t, &type));
    MAP(type, "example 5.6", {0, 4}, {4, 4}, {16, 8}, {24, 1}, {26, 1}, {27, 1}, {28, 1});
    CHECK_OK(MPI_Type_free(&pair));

    /* Blocks without elements, displacements far outside: they are not there. */
    int none[2] = {0, 1};
    MPI_Aint far[2] = {1 << 30, 4};
    CHECK_OK(MPI_Type_create_hindexed(2, none, far, MPI_INT, &type));
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK_INT(lb, 4);
    CHECK_INT(extent, 4);
    MAP(type, "an empty block", {4, 4});

    /* 5.8: the distance of two elements of an array (in Fortran's order there). */
    float a[100][100];
    MPI_Aint one, another;
    CHECK_OK(MPI_Get_address(&a[0][0], &one));
    CHECK_OK(MPI_Get_address(&a[9][9], &another));
    CHECK_INT(MPI_Aint_diff(another, one), 909 * sizeof(float));
    CHECK_INT(MPI_Aint_add(one, MPI_Aint_diff(another, one)), another);

    /* 5.10: a handle is a name of its type; the variable is free for another. */
    MPI_Datatype type1, type2;
    float from[16], to[16];
    for (int i = 0; i < 16; i++) from[i] = (float)i, to[i] = -1;
    CHECK_OK(MPI_Type_contiguous(5, MPI_FLOAT, &type1));
    CHECK_OK(MPI_Type_commit(&type1));
    type2 = type1;
    CHECK_OK(MPI_Type_vector(3, 5, 4, MPI_FLOAT, &type1));
    CHECK_OK(MPI_Type_commit(&type1));
    CHECK_OK(MPI_Sendrecv(from, 1, type1, 0, 0, to, 3, type2, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    for (int i = 0; i < 15; i++) CHECK(to[i] == (float)(i / 5 * 4 + i % 5));
    CHECK(to[15] == -1);
    CHECK_OK(MPI_Type_free(&type1));
    CHECK_OK(MPI_Type_free(&type2));
    return check_end();
}
