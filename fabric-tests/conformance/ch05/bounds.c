/* Lower and upper bounds, extents, true extents: markers that stick, blocks without elements, negative strides and
 * extents, alignment; the forms for large counts say the same, outputs that are too small MPI_UNDEFINED.
 *
 * MPICH 5.0.2 lets data beyond an upper marker count, rounds the distance between two markers up, and gives a vector of
 * blocks without elements an extent, against sections 5.1, 5.1.2 and 5.1.6; the rest passes there.
 *
 * Covers: 5.1, 5.1.2, 5.1.3, 5.1.5, 5.1.6, 5.1.7, 5.1.8, 16.4
 * Ranks: 1
 */
#include "check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

/* Checks all the ways of asking, and frees the type. */
static void is(MPI_Datatype type, const char *what, long size, long lb, long extent, long true_lb, long true_extent)
{
    int bytes;
    MPI_Aint a, b;
    MPI_Count c, d, large;
    CHECK_OK(MPI_Type_size(type, &bytes));
    CHECK_OK(MPI_Type_get_extent(type, &a, &b));
    if (bytes != size || a != lb || b != extent)
        CHECK_FAIL("%s: size %d lb %ld extent %ld, wanted %ld %ld %ld", what, bytes, (long)a, (long)b, size, lb, extent);
    CHECK_OK(MPI_Type_get_true_extent(type, &a, &b));
    if (a != true_lb || b != true_extent)
        CHECK_FAIL("%s: true lb %ld extent %ld, wanted %ld %ld", what, (long)a, (long)b, true_lb, true_extent);
    CHECK_OK(MPI_Type_size_c(type, &large));
    CHECK_INT(large, size);
    CHECK_OK(MPI_Type_size_x(type, &large));
    CHECK_INT(large, size);
    CHECK_OK(MPI_Type_get_extent_c(type, &c, &d));
    CHECK(c == lb && d == extent);
    CHECK_OK(MPI_Type_get_extent_x(type, &c, &d));
    CHECK(c == lb && d == extent);
    CHECK_OK(MPI_Type_get_true_extent_c(type, &c, &d));
    CHECK(c == true_lb && d == true_extent);
    CHECK_OK(MPI_Type_get_true_extent_x(type, &c, &d));
    CHECK(c == true_lb && d == true_extent);
    CHECK_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype type, inner, other;

    /* 5.1 and 5.2: double and char, 16 bytes by alignment. */
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_CHAR};
    int ones[2] = {1, 1};
    MPI_Aint places[2] = {0, 8};
    CHECK_OK(MPI_Type_create_struct(2, ones, places, types, &inner));
    CHECK_OK(MPI_Type_contiguous(3, inner, &type));
    is(type, "example 5.2", 27, 0, 48, 0, 41);
    CHECK_OK(MPI_Type_vector(2, 3, 4, inner, &type));
    is(type, "example 5.3", 54, 0, 112, 0, 105);
    CHECK_OK(MPI_Type_vector(3, 1, -2, inner, &type));
    is(type, "example 5.4", 27, -64, 80, -64, 73);
    int blocks[2] = {3, 1}, displacements[2] = {4, 0};
    CHECK_OK(MPI_Type_indexed(2, blocks, displacements, inner, &type));
    is(type, "example 5.5", 36, 0, 112, 0, 105);
    /* 5.6: floats at 0 and 4, the structure at 16, chars at 26; the size of the largest alignment rounds the extent. */
    MPI_Datatype three[3] = {MPI_FLOAT, inner, MPI_CHAR};
    int lengths[3] = {2, 1, 3};
    MPI_Aint at[3] = {0, 16, 26};
    CHECK_OK(MPI_Type_create_struct(3, lengths, at, three, &type));
    is(type, "example 5.6", 20, 0, 32, 0, 29);
    is(inner, "example 5.1", 9, 0, 16, 0, 9);
    /* A char behind which a double follows at once: 16 as well. */
    MPI_Datatype swapped[2] = {MPI_CHAR, MPI_DOUBLE};
    MPI_Aint near[2] = {0, 1};
    CHECK_OK(MPI_Type_create_struct(2, ones, near, swapped, &type));
    is(type, "char and double", 9, 0, 16, 0, 9);
    /* The extent is rounded, not the upper bound. */
    MPI_Aint off[1] = {3};
    CHECK_OK(MPI_Type_create_hindexed(1, ones, off, MPI_INT, &type));
    is(type, "int at 3", 4, 3, 4, 3, 4);

    /* 5.9: markers, and that they stick. */
    CHECK_OK(MPI_Type_create_resized(MPI_INT, -3, 9, &inner));
    CHECK_OK(MPI_Type_contiguous(2, inner, &type));
    is(type, "example 5.9", 8, -3, 18, 0, 13);
    MPI_Datatype both[2] = {inner, MPI_DOUBLE};
    MPI_Aint far[2] = {0, 100};
    CHECK_OK(MPI_Type_create_struct(2, ones, far, both, &type)); /* data beyond the marker does not count */
    is(type, "marker and data", 12, -3, 9, 0, 108);
    CHECK_OK(MPI_Type_create_resized(MPI_CHAR, 50, 10, &other));
    MPI_Datatype marked[2] = {inner, other};
    MPI_Aint none[2] = {0, 0};
    CHECK_OK(MPI_Type_create_struct(2, ones, none, marked, &type)); /* least of lb, most of ub */
    is(type, "two markers", 5, -3, 63, 0, 4);
    CHECK_OK(MPI_Type_create_resized(inner, 1, 2, &type)); /* resizing erases */
    is(type, "resized again", 4, 1, 2, 0, 4);
    CHECK_OK(MPI_Type_dup(inner, &type));
    is(type, "duplicate", 4, -3, 9, 0, 4);
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_free(&other));
    /* Negative and zero extents replicate backwards and on the spot. */
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, -8, &inner));
    CHECK_OK(MPI_Type_contiguous(3, inner, &type));
    is(type, "backwards", 12, -16, 8, -16, 20);
    CHECK_OK(MPI_Type_free(&inner));

    /* Blocks without elements have no bounds. */
    int some[3] = {1, 0, 1}, whither[3] = {1, 1000, 2};
    MPI_Aint whither_bytes[3] = {4, -4000, 8};
    CHECK_OK(MPI_Type_indexed(3, some, whither, MPI_INT, &type));
    is(type, "indexed with nothing", 8, 4, 8, 4, 8);
    CHECK_OK(MPI_Type_create_hindexed(3, some, whither_bytes, MPI_INT, &type));
    is(type, "hindexed with nothing", 8, 4, 8, 4, 8);
    MPI_Datatype nothing[3] = {MPI_INT, MPI_DOUBLE, MPI_INT};
    CHECK_OK(MPI_Type_create_struct(3, some, whither_bytes, nothing, &type));
    is(type, "struct with nothing", 8, 4, 8, 4, 8);
    CHECK_OK(MPI_Type_vector(3, 0, 7, MPI_INT, &type));
    is(type, "vector of nothing", 0, 0, 0, 0, 0);
    CHECK_OK(MPI_Type_contiguous(0, MPI_INT, &type));
    is(type, "nothing", 0, 0, 0, 0, 0);

    /* Subarrays have the bounds of the whole, in both orders. */
    int sizes[2] = {10, 20}, subsizes[2] = {3, 4}, starts[2] = {2, 5};
    CHECK_OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type));
    is(type, "subarray in C", 48, 0, 800, (2 * 20 + 5) * 4, (2 * 20 + 4) * 4);
    CHECK_OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type));
    is(type, "subarray in Fortran", 48, 0, 800, (5 * 10 + 2) * 4, (3 * 10 + 3) * 4);

    /* What an int cannot hold. */
    int size = 0;
    MPI_Count large;
    MPI_Aint lb, extent;
    CHECK_OK(MPI_Type_contiguous(1 << 30, MPI_DOUBLE, &inner));
    CHECK_OK(MPI_Type_contiguous(1 << 10, inner, &type));
    CHECK_OK(MPI_Type_size(type, &size));
    CHECK_INT(size, MPI_UNDEFINED);
    CHECK_OK(MPI_Type_size_c(type, &large));
    CHECK_INT(large, 1LL << 43);
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK_INT(extent, 1LL << 43);
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Pack_size(1, type, MPI_COMM_SELF, &size));
    CHECK_INT(size, MPI_UNDEFINED);
    CHECK_OK(MPI_Pack_size_c(3, type, MPI_COMM_SELF, &large));
    CHECK(large >= 3LL << 43);
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_free(&type));

    /* Addresses. */
    double array[4];
    MPI_Aint a, b;
    CHECK_OK(MPI_Get_address(&array[0], &a));
    CHECK_OK(MPI_Get_address(&array[3], &b));
    CHECK_INT(MPI_Aint_diff(b, a), 24);
    CHECK(MPI_Aint_add(a, 24) == b);
    CHECK_OK(MPI_Get_address(MPI_BOTTOM, &a));
    CHECK_INT(a, 0);
    return check_end();
}
