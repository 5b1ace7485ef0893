/* Wrong arguments of every constructor, in both forms: null arrays of a positive length, negative numbers, types that are none or were
 * freed, nowhere to put the new type, and sizes, bounds and displacements that do not fit 64 bits. Each is refused by its class and
 * by a text that names the argument, and newtype stays as it was. So are null arrays that contents would be told in.
 *
 * The classes are this library's where section 9.4 leaves a choice, and peers look neither for freed types
 * nor for overflow (MPICH 5.0.2 crashes at a null array), so they fail this program by design.
 *
 * Covers: 5.1.2, 5.1.3, 5.1.4, 5.1.7, 5.1.10, 5.1.13, 9.4, 19.2
 * Ranks: 1
 */
#include "check.h"

static MPI_Datatype type;

#define REFUSED(call, wanted, names)                                                             \
    do {                                                                                         \
        char why_[MPI_MAX_ERROR_STRING + 1] = "";                                                \
        type = MPI_FLOAT;                                                                        \
        int got_ = (call), length_;                                                              \
        if (check_class_of(got_) != (wanted))                                                    \
            CHECK_FAIL("%s: class %d, wanted %s", #call, check_class_of(got_), #wanted);         \
        MPI_Error_string(got_, why_, &length_);                                                  \
        if (!strstr(why_, names)) CHECK_FAIL("%s: \"%s\" does not name %s", #call, why_, names); \
        if (type != MPI_FLOAT) CHECK_FAIL("%s: newtype was written", #call);                     \
    } while (0)

/* A call in both forms: `f` is what stands in front of the arguments. Arrays of numbers are given by name, those of the large form in
 * capitals. */
#define BOTH(f, args, large_args, wanted, names) \
    do {                                         \
        REFUSED(f args, wanted, names);          \
        REFUSED(f##_c large_args, wanted, names); \
    } while (0)
#define ALIKE(f, args, wanted, names) BOTH(f, args, args, wanted, names)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int l[2] = {1, 1}, minus[2] = {1, -2}, d[2] = {0, 4};
    MPI_Aint a[2] = {0, 64};
    MPI_Count L[2] = {1, 1}, MINUS[2] = {1, -2}, D[2] = {0, 4}, A[2] = {0, 64};
    MPI_Datatype ints[2] = {MPI_INT, MPI_INT}, none[2] = {MPI_INT, MPI_DATATYPE_NULL}, gone, was_freed[2] = {MPI_INT};
    int s[2] = {4, 5}, u[2] = {2, 3}, b[2] = {1, 1}, e[2] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
    int g[2] = {MPI_DISTRIBUTE_DFLT_DARG, 1}, p[2] = {2, 3};
    MPI_Count S[2] = {4, 5}, U[2] = {2, 3}, B[2] = {1, 1};
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &type));
    gone = was_freed[1] = type;
    CHECK_OK(MPI_Type_free(&type));

    /* Null arrays. */
    BOTH(MPI_Type_indexed, (2, NULL, d, MPI_INT, &type), (2, NULL, D, MPI_INT, &type), MPI_ERR_ARG, "array_of_blocklengths");
    BOTH(MPI_Type_indexed, (2, l, NULL, MPI_INT, &type), (2, L, NULL, MPI_INT, &type), MPI_ERR_ARG, "array_of_displacements");
    BOTH(MPI_Type_create_hindexed, (2, NULL, a, MPI_INT, &type), (2, NULL, A, MPI_INT, &type), MPI_ERR_ARG,
         "array_of_blocklengths");
    BOTH(MPI_Type_create_hindexed, (2, l, NULL, MPI_INT, &type), (2, L, NULL, MPI_INT, &type), MPI_ERR_ARG,
         "array_of_displacements");
    ALIKE(MPI_Type_create_indexed_block, (2, 1, NULL, MPI_INT, &type), MPI_ERR_ARG, "array_of_displacements");
    ALIKE(MPI_Type_create_hindexed_block, (2, 1, NULL, MPI_INT, &type), MPI_ERR_ARG, "array_of_displacements");
    BOTH(MPI_Type_create_struct, (2, NULL, a, ints, &type), (2, NULL, A, ints, &type), MPI_ERR_ARG, "array_of_blocklengths");
    BOTH(MPI_Type_create_struct, (2, l, NULL, ints, &type), (2, L, NULL, ints, &type), MPI_ERR_ARG, "array_of_displacements");
    BOTH(MPI_Type_create_struct, (2, l, a, NULL, &type), (2, L, A, NULL, &type), MPI_ERR_ARG, "array_of_types");
    BOTH(MPI_Type_create_subarray, (2, NULL, u, b, MPI_ORDER_C, MPI_INT, &type), (2, NULL, U, B, MPI_ORDER_C, MPI_INT, &type),
         MPI_ERR_ARG, "array_of_sizes");
    BOTH(MPI_Type_create_subarray, (2, s, NULL, b, MPI_ORDER_C, MPI_INT, &type), (2, S, NULL, B, MPI_ORDER_C, MPI_INT, &type),
         MPI_ERR_ARG, "array_of_subsizes");
    BOTH(MPI_Type_create_subarray, (2, s, u, NULL, MPI_ORDER_C, MPI_INT, &type), (2, S, U, NULL, MPI_ORDER_C, MPI_INT, &type),
         MPI_ERR_ARG, "array_of_starts");
    ALIKE(MPI_Type_create_darray, (6, 1, 2, NULL, e, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_gsizes");
    BOTH(MPI_Type_create_darray, (6, 1, 2, s, NULL, g, p, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 2, S, NULL, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_distribs");
    BOTH(MPI_Type_create_darray, (6, 1, 2, s, e, NULL, p, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 2, S, e, NULL, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_dargs");
    BOTH(MPI_Type_create_darray, (6, 1, 2, s, e, g, NULL, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 2, S, e, g, NULL, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_psizes");

    /* Negative numbers. */
    ALIKE(MPI_Type_contiguous, (-1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    ALIKE(MPI_Type_vector, (-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    ALIKE(MPI_Type_vector, (1, -1, 1, MPI_INT, &type), MPI_ERR_COUNT, "blocklength");
    ALIKE(MPI_Type_create_hvector, (-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    ALIKE(MPI_Type_create_hvector, (1, -1, 1, MPI_INT, &type), MPI_ERR_COUNT, "blocklength");
    BOTH(MPI_Type_indexed, (-2, l, d, MPI_INT, &type), (-2, L, D, MPI_INT, &type), MPI_ERR_COUNT, "count");
    BOTH(MPI_Type_indexed, (2, minus, d, MPI_INT, &type), (2, MINUS, D, MPI_INT, &type), MPI_ERR_COUNT,
         "array_of_blocklengths[1]");
    BOTH(MPI_Type_create_hindexed, (-2, l, a, MPI_INT, &type), (-2, L, A, MPI_INT, &type), MPI_ERR_COUNT, "count");
    BOTH(MPI_Type_create_hindexed, (2, minus, a, MPI_INT, &type), (2, MINUS, A, MPI_INT, &type), MPI_ERR_COUNT,
         "array_of_blocklengths[1]");
    BOTH(MPI_Type_create_indexed_block, (-2, 1, d, MPI_INT, &type), (-2, 1, D, MPI_INT, &type), MPI_ERR_COUNT, "count");
    BOTH(MPI_Type_create_indexed_block, (2, -1, d, MPI_INT, &type), (2, -1, D, MPI_INT, &type), MPI_ERR_COUNT, "blocklength");
    BOTH(MPI_Type_create_hindexed_block, (-2, 1, a, MPI_INT, &type), (-2, 1, A, MPI_INT, &type), MPI_ERR_COUNT, "count");
    BOTH(MPI_Type_create_hindexed_block, (2, -1, a, MPI_INT, &type), (2, -1, A, MPI_INT, &type), MPI_ERR_COUNT, "blocklength");
    BOTH(MPI_Type_create_struct, (-2, l, a, ints, &type), (-2, L, A, ints, &type), MPI_ERR_COUNT, "count");
    BOTH(MPI_Type_create_struct, (2, minus, a, ints, &type), (2, MINUS, A, ints, &type), MPI_ERR_COUNT,
         "array_of_blocklengths[1]");
    BOTH(MPI_Type_create_subarray, (0, s, u, b, MPI_ORDER_C, MPI_INT, &type), (0, S, U, B, MPI_ORDER_C, MPI_INT, &type),
         MPI_ERR_ARG, "ndims");
    BOTH(MPI_Type_create_subarray, (2, minus, u, b, MPI_ORDER_C, MPI_INT, &type),
         (2, MINUS, U, B, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "dimension 0");
    BOTH(MPI_Type_create_subarray, (2, s, minus, b, MPI_ORDER_C, MPI_INT, &type),
         (2, S, MINUS, B, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "dimension 1");
    BOTH(MPI_Type_create_subarray, (2, s, u, minus, MPI_ORDER_C, MPI_INT, &type),
         (2, S, U, MINUS, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "dimension 1");
    BOTH(MPI_Type_create_darray, (6, 1, 0, s, e, g, p, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 0, S, e, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "ndims");
    BOTH(MPI_Type_create_darray, (-6, 1, 2, s, e, g, p, MPI_ORDER_C, MPI_INT, &type),
         (-6, 1, 2, S, e, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "size");
    BOTH(MPI_Type_create_darray, (6, -1, 2, s, e, g, p, MPI_ORDER_C, MPI_INT, &type),
         (6, -1, 2, S, e, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "rank");
    BOTH(MPI_Type_create_darray, (6, 6, 2, s, e, g, p, MPI_ORDER_C, MPI_INT, &type),
         (6, 6, 2, S, e, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "rank");
    BOTH(MPI_Type_create_darray, (6, 1, 2, minus, e, g, p, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 2, MINUS, e, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_gsizes");
    BOTH(MPI_Type_create_darray, (6, 1, 2, s, minus, g, p, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 2, S, minus, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_distribs");
    BOTH(MPI_Type_create_darray, (6, 1, 2, s, e, minus, p, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 2, S, e, minus, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_dargs");
    BOTH(MPI_Type_create_darray, (6, 1, 2, s, e, g, minus, MPI_ORDER_C, MPI_INT, &type),
         (6, 1, 2, S, e, g, minus, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "array_of_psizes");

    /* Types that are none, types that were freed, no place for the new one. */
    for (int k = 0; k < 2; k++) {
        MPI_Datatype bad = k ? gone : MPI_DATATYPE_NULL, *bads = k ? was_freed : none;
        const char *says = k ? "freed" : "MPI_DATATYPE_NULL";
        ALIKE(MPI_Type_contiguous, (1, bad, &type), MPI_ERR_TYPE, says);
        ALIKE(MPI_Type_vector, (1, 1, 1, bad, &type), MPI_ERR_TYPE, says);
        ALIKE(MPI_Type_create_hvector, (1, 1, 1, bad, &type), MPI_ERR_TYPE, says);
        BOTH(MPI_Type_indexed, (2, l, d, bad, &type), (2, L, D, bad, &type), MPI_ERR_TYPE, says);
        BOTH(MPI_Type_create_hindexed, (2, l, a, bad, &type), (2, L, A, bad, &type), MPI_ERR_TYPE, says);
        BOTH(MPI_Type_create_indexed_block, (2, 1, d, bad, &type), (2, 1, D, bad, &type), MPI_ERR_TYPE, says);
        BOTH(MPI_Type_create_hindexed_block, (2, 1, a, bad, &type), (2, 1, A, bad, &type), MPI_ERR_TYPE, says);
        BOTH(MPI_Type_create_struct, (2, l, a, bads, &type), (2, L, A, bads, &type), MPI_ERR_TYPE, "array_of_types");
        BOTH(MPI_Type_create_struct, (2, l, a, bads, &type), (2, L, A, bads, &type), MPI_ERR_TYPE, says);
        BOTH(MPI_Type_create_subarray, (2, s, u, b, MPI_ORDER_C, bad, &type), (2, S, U, B, MPI_ORDER_C, bad, &type),
             MPI_ERR_TYPE, says);
        BOTH(MPI_Type_create_darray, (6, 1, 2, s, e, g, p, MPI_ORDER_C, bad, &type),
             (6, 1, 2, S, e, g, p, MPI_ORDER_C, bad, &type), MPI_ERR_TYPE, says);
        ALIKE(MPI_Type_create_resized, (bad, 0, 8, &type), MPI_ERR_TYPE, says);
        REFUSED(MPI_Type_dup(bad, &type), MPI_ERR_TYPE, says);
    }
    ALIKE(MPI_Type_contiguous, (1, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    ALIKE(MPI_Type_vector, (1, 1, 1, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    ALIKE(MPI_Type_create_hvector, (1, 1, 1, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    BOTH(MPI_Type_indexed, (2, l, d, MPI_INT, NULL), (2, L, D, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    BOTH(MPI_Type_create_hindexed, (2, l, a, MPI_INT, NULL), (2, L, A, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    BOTH(MPI_Type_create_indexed_block, (2, 1, d, MPI_INT, NULL), (2, 1, D, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    BOTH(MPI_Type_create_hindexed_block, (2, 1, a, MPI_INT, NULL), (2, 1, A, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    BOTH(MPI_Type_create_struct, (2, l, a, ints, NULL), (2, L, A, ints, NULL), MPI_ERR_ARG, "newtype");
    BOTH(MPI_Type_create_subarray, (2, s, u, b, MPI_ORDER_C, MPI_INT, NULL), (2, S, U, B, MPI_ORDER_C, MPI_INT, NULL),
         MPI_ERR_ARG, "newtype");
    BOTH(MPI_Type_create_darray, (6, 1, 2, s, e, g, p, MPI_ORDER_C, MPI_INT, NULL),
         (6, 1, 2, S, e, g, p, MPI_ORDER_C, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    ALIKE(MPI_Type_create_resized, (MPI_INT, 0, 8, NULL), MPI_ERR_ARG, "newtype");
    REFUSED(MPI_Type_dup(MPI_INT, NULL), MPI_ERR_ARG, "newtype");

    /* What does not fit 64 bits: the size, the extent, a displacement, each where the form has numbers that large. */
    const MPI_Count huge = (MPI_Count)1 << 62, most = 0x7fffffffffffffff;
    MPI_Count HUGES[2] = {1, huge}, MOST[2] = {0, most}, LEAST[2] = {-2, -most - 1}, TWO[2] = {1 << 30, 1 << 30};
    MPI_Aint farthest[2] = {0, most}, nearest[2] = {-2, -most - 1};
    MPI_Datatype wide, wides[2];
    CHECK_OK(MPI_Type_contiguous_c(huge, MPI_CHAR, &wide));
    wides[0] = wides[1] = wide;
    REFUSED(MPI_Type_contiguous(4, wide, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_contiguous_c(huge, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_vector(4, 1, 1, wide, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_vector(2, 1, 0x7fffffff, wide, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_vector_c(3, huge, 0, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_vector_c(3, 1, -huge, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hvector(4, 1, most, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hvector_c(4, 1, -most, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hvector_c(huge, huge, 0, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_indexed(2, l, d, wide, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_indexed_c(2, HUGES, D, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_indexed_c(2, L, LEAST, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hindexed(2, l, farthest, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hindexed(2, l, nearest, wide, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hindexed_c(2, L, MOST, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hindexed_c(2, HUGES, A, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_indexed_block(2, 1, d, wide, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_indexed_block_c(2, huge, D, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_indexed_block_c(2, 1, MOST, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hindexed_block(2, 1, farthest, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hindexed_block_c(2, 1, MOST, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_hindexed_block_c(2, huge, A, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_struct(2, l, farthest, ints, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_struct(2, l, a, wides, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_struct_c(2, HUGES, A, ints, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_struct_c(2, L, MOST, ints, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_struct_c(2, L, LEAST, wides, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_subarray(2, s, u, b, MPI_ORDER_C, wide, &type), MPI_ERR_COUNT, "64 bits");
    MPI_Count LONG[2] = {huge, 3}, ONE[2] = {1, 1}, ZERO[2] = {0, 0};
    REFUSED(MPI_Type_create_subarray_c(2, LONG, ONE, ZERO, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_subarray_c(2, LONG, ONE, ZERO, MPI_ORDER_FORTRAN, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_darray(6, 1, 2, s, e, g, p, MPI_ORDER_C, wide, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_darray_c(6, 1, 2, LONG, e, g, p, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_resized(MPI_INT, most, 1, &type), MPI_ERR_COUNT, "64 bits");
    REFUSED(MPI_Type_create_resized_c(MPI_INT, -most - 1, -1, &type), MPI_ERR_COUNT, "64 bits");
    /* Told without room for it. */
    MPI_Datatype whole, placed;
    int n[4];
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &whole));
    CHECK_OK(MPI_Type_create_hindexed(1, l, a, MPI_INT, &placed));
    REFUSED(MPI_Type_get_contents(whole, 1, 0, 1, NULL, NULL, &type), MPI_ERR_ARG, "array_of_integers");
    REFUSED(MPI_Type_get_contents(placed, 2, 1, 1, n, NULL, &type), MPI_ERR_ARG, "array_of_addresses");
    REFUSED(MPI_Type_get_contents(whole, 1, 0, 1, n, NULL, NULL), MPI_ERR_ARG, "array_of_datatypes");
    CHECK_OK(MPI_Type_free(&whole));
    CHECK_OK(MPI_Type_free(&placed));
    CHECK_OK(MPI_Type_contiguous_c(3, MPI_INT, &whole));
    REFUSED(MPI_Type_get_contents_c(whole, 0, 0, 1, 1, NULL, NULL, NULL, &type), MPI_ERR_ARG, "array_of_large_counts");
    CHECK_OK(MPI_Type_free(&whole));
    /* What just fits. */
    CHECK_OK(MPI_Type_create_hindexed_c(2, TWO, A, MPI_CHAR, &type));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_create_hvector_c(3, 1, most / 2 - 4, MPI_INT, &type));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_contiguous_c(huge / 2, MPI_SHORT, &type));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_free(&wide));

    /* No elements need no arrays. */
    MPI_Datatype empty[10];
    CHECK_OK(MPI_Type_indexed(0, NULL, NULL, MPI_INT, &empty[0]));
    CHECK_OK(MPI_Type_indexed_c(0, NULL, NULL, MPI_INT, &empty[1]));
    CHECK_OK(MPI_Type_create_hindexed(0, NULL, NULL, MPI_INT, &empty[2]));
    CHECK_OK(MPI_Type_create_hindexed_c(0, NULL, NULL, MPI_INT, &empty[3]));
    CHECK_OK(MPI_Type_create_indexed_block(0, 1, NULL, MPI_INT, &empty[4]));
    CHECK_OK(MPI_Type_create_indexed_block_c(0, 1, NULL, MPI_INT, &empty[5]));
    CHECK_OK(MPI_Type_create_hindexed_block(0, 1, NULL, MPI_INT, &empty[6]));
    CHECK_OK(MPI_Type_create_hindexed_block_c(0, 1, NULL, MPI_INT, &empty[7]));
    CHECK_OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &empty[8]));
    CHECK_OK(MPI_Type_create_struct_c(0, NULL, NULL, NULL, &empty[9]));
    for (int k = 0; k < 10; k++) {
        int size;
        CHECK_OK(MPI_Type_size(empty[k], &size));
        CHECK_INT(size, 0);
        CHECK_OK(MPI_Type_free(&empty[k]));
    }
    return check_end();
}
