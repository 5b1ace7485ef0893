/* Envelope and contents of every constructor, in the order of the standard's lists; large counts in theirs; derived inputs
 * as new references, predefined ones as themselves; building again from what was told gives the same bytes.
 *
 * Where the large forms put their numbers is not said by the standard: counts and displacements are large counts,
 * dimensions and orders integers, as MPICH has it.
 *
 * Covers: 5.1.13
 * Ranks: 1
 */
#include "check.h"

static void told(MPI_Datatype type, const char *what, int combiner, int ni, const int *wi, int na, const MPI_Aint *wa,
                 int nd, const MPI_Datatype *wd)
{
    int counts[3], made, integers[32];
    MPI_Aint addresses[32];
    MPI_Datatype types[8];
    CHECK_OK(MPI_Type_get_envelope(type, &counts[0], &counts[1], &counts[2], &made));
    if (made != combiner || counts[0] != ni || counts[1] != na || counts[2] != nd) {
        CHECK_FAIL("%s: combiner %d (%d), %d %d %d", what, made, combiner, counts[0], counts[1], counts[2]);
        return;
    }
    CHECK_OK(MPI_Type_get_contents(type, ni, na, nd, integers, addresses, types));
    for (int i = 0; i < ni; i++)
        if (integers[i] != wi[i]) CHECK_FAIL("%s: integer %d is %d, wanted %d", what, i, integers[i], wi[i]);
    for (int i = 0; i < na; i++)
        if (addresses[i] != wa[i]) CHECK_FAIL("%s: address %d is %ld", what, i, (long)addresses[i]);
    for (int i = 0; i < nd; i++)
        if (types[i] != wd[i]) CHECK_FAIL("%s: type %d", what, i);
    MPI_Count large[4];
    CHECK_OK(MPI_Type_get_envelope_c(type, &large[0], &large[1], &large[2], &large[3], &made));
    CHECK(large[0] == ni && large[1] == na && large[2] == 0 && large[3] == nd && made == combiner);
    CHECK_OK(MPI_Type_free(&type));
}
#define INTS(...) (const int[]){__VA_ARGS__}
#define AINTS(...) (const MPI_Aint[]){__VA_ARGS__}
#define COUNTS(...) (const MPI_Count[]){__VA_ARGS__}
#define TYPES(...) (const MPI_Datatype[]){__VA_ARGS__}

static void told_c(MPI_Datatype type, const char *what, int combiner, int ni, const int *wi, int nc, const MPI_Count *wc,
                   int nd, const MPI_Datatype *wd)
{
    int made, integers[32];
    MPI_Count counts[4], large[32];
    MPI_Aint addresses[1];
    MPI_Datatype types[8];
    CHECK_OK(MPI_Type_get_envelope_c(type, &counts[0], &counts[1], &counts[2], &counts[3], &made));
    if (made != combiner || counts[0] != ni || counts[1] != 0 || counts[2] != nc || counts[3] != nd) {
        CHECK_FAIL("%s_c: combiner %d (%d), %d %d %d %d", what, made, combiner, (int)counts[0], (int)counts[1],
                   (int)counts[2], (int)counts[3]);
        return;
    }
    CHECK_OK(MPI_Type_get_contents_c(type, ni, 0, nc, nd, integers, addresses, large, types));
    for (int i = 0; i < ni; i++)
        if (integers[i] != wi[i]) CHECK_FAIL("%s_c: integer %d is %d, wanted %d", what, i, integers[i], wi[i]);
    for (int i = 0; i < nc; i++)
        if (large[i] != wc[i]) CHECK_FAIL("%s_c: large count %d is %lld", what, i, (long long)large[i]);
    for (int i = 0; i < nd; i++)
        if (types[i] != wd[i]) CHECK_FAIL("%s_c: type %d", what, i);
    CHECK_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype t;
    int l[2] = {3, 1}, d[2] = {5, -2};
    MPI_Aint a[2] = {64, -16};
    MPI_Count L[2] = {3, 1}, D[2] = {5, -2}, A[2] = {64, -16};
    MPI_Datatype two[2] = {MPI_INT, MPI_DOUBLE};
    CHECK_OK(MPI_Type_dup(MPI_INT, &t));
    told(t, "dup", MPI_COMBINER_DUP, 0, NULL, 0, NULL, 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_contiguous(7, MPI_INT, &t));
    told(t, "contiguous", MPI_COMBINER_CONTIGUOUS, 1, INTS(7), 0, NULL, 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_vector(2, 3, -4, MPI_CHAR, &t));
    told(t, "vector", MPI_COMBINER_VECTOR, 3, INTS(2, 3, -4), 0, NULL, 1, TYPES(MPI_CHAR));
    CHECK_OK(MPI_Type_create_hvector(2, 3, -40, MPI_CHAR, &t));
    told(t, "hvector", MPI_COMBINER_HVECTOR, 2, INTS(2, 3), 1, AINTS(-40), 1, TYPES(MPI_CHAR));
    CHECK_OK(MPI_Type_indexed(2, l, d, MPI_INT, &t));
    told(t, "indexed", MPI_COMBINER_INDEXED, 5, INTS(2, 3, 1, 5, -2), 0, NULL, 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_hindexed(2, l, a, MPI_INT, &t));
    told(t, "hindexed", MPI_COMBINER_HINDEXED, 3, INTS(2, 3, 1), 2, AINTS(64, -16), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_indexed_block(2, 9, d, MPI_INT, &t));
    told(t, "indexed_block", MPI_COMBINER_INDEXED_BLOCK, 4, INTS(2, 9, 5, -2), 0, NULL, 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_hindexed_block(2, 9, a, MPI_INT, &t));
    told(t, "hindexed_block", MPI_COMBINER_HINDEXED_BLOCK, 2, INTS(2, 9), 2, AINTS(64, -16), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_struct(2, l, a, two, &t));
    told(t, "struct", MPI_COMBINER_STRUCT, 3, INTS(2, 3, 1), 2, AINTS(64, -16), 2, two);
    int sizes[2] = {10, 20}, subsizes[2] = {3, 4}, starts[2] = {2, 5};
    CHECK_OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &t));
    told(t, "subarray", MPI_COMBINER_SUBARRAY, 8, INTS(2, 10, 20, 3, 4, 2, 5, MPI_ORDER_FORTRAN), 0, NULL, 1,
         TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_resized(MPI_INT, -8, 32, &t));
    told(t, "resized", MPI_COMBINER_RESIZED, 0, NULL, 2, AINTS(-8, 32), 1, TYPES(MPI_INT));

    CHECK_OK(MPI_Type_contiguous_c(7, MPI_INT, &t));
    told_c(t, "contiguous", MPI_COMBINER_CONTIGUOUS, 0, NULL, 1, COUNTS(7), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_vector_c(2, 3, (MPI_Count)-4, MPI_CHAR, &t));
    told_c(t, "vector", MPI_COMBINER_VECTOR, 0, NULL, 3, COUNTS(2, 3, -4), 1, TYPES(MPI_CHAR));
    CHECK_OK(MPI_Type_create_hvector_c(2, 3, (MPI_Count)5 << 32, MPI_CHAR, &t));
    told_c(t, "hvector", MPI_COMBINER_HVECTOR, 0, NULL, 3, COUNTS(2, 3, (MPI_Count)5 << 32), 1, TYPES(MPI_CHAR));
    CHECK_OK(MPI_Type_indexed_c(2, L, D, MPI_INT, &t));
    told_c(t, "indexed", MPI_COMBINER_INDEXED, 0, NULL, 5, COUNTS(2, 3, 1, 5, -2), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_hindexed_c(2, L, A, MPI_INT, &t));
    told_c(t, "hindexed", MPI_COMBINER_HINDEXED, 0, NULL, 5, COUNTS(2, 3, 1, 64, -16), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_indexed_block_c(2, 9, D, MPI_INT, &t));
    told_c(t, "indexed_block", MPI_COMBINER_INDEXED_BLOCK, 0, NULL, 4, COUNTS(2, 9, 5, -2), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_hindexed_block_c(2, 9, A, MPI_INT, &t));
    told_c(t, "hindexed_block", MPI_COMBINER_HINDEXED_BLOCK, 0, NULL, 4, COUNTS(2, 9, 64, -16), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_struct_c(2, L, A, two, &t));
    told_c(t, "struct", MPI_COMBINER_STRUCT, 0, NULL, 5, COUNTS(2, 3, 1, 64, -16), 2, two);
    MPI_Count S[2] = {10, 20}, U[2] = {3, 4}, B[2] = {2, 5};
    CHECK_OK(MPI_Type_create_subarray_c(2, S, U, B, MPI_ORDER_C, MPI_INT, &t));
    told_c(t, "subarray", MPI_COMBINER_SUBARRAY, 2, INTS(2, MPI_ORDER_C), 6, COUNTS(10, 20, 3, 4, 2, 5), 1, TYPES(MPI_INT));
    CHECK_OK(MPI_Type_create_resized_c(MPI_INT, -8, 32, &t));
    told_c(t, "resized", MPI_COMBINER_RESIZED, 0, NULL, 2, COUNTS(-8, 32), 1, TYPES(MPI_INT));

    /* A derived input comes back as a type of its own, which lives on. */
    MPI_Datatype inner, outer, back;
    int ni, na, nd, combiner, n, size;
    CHECK_OK(MPI_Type_vector(2, 1, 3, MPI_INT, &inner));
    CHECK_OK(MPI_Type_contiguous(4, inner, &outer));
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_get_contents(outer, 1, 0, 1, &n, NULL, &back));
    CHECK_OK(MPI_Type_free(&outer));
    CHECK_OK(MPI_Type_get_envelope(back, &ni, &na, &nd, &combiner));
    CHECK_INT(combiner, MPI_COMBINER_VECTOR);
    CHECK_OK(MPI_Type_contiguous(n, back, &outer));
    CHECK_OK(MPI_Type_free(&back));
    CHECK_OK(MPI_Type_size(outer, &size));
    CHECK_INT(size, 32);
    CHECK_OK(MPI_Type_free(&outer));
    CHECK_OK(MPI_Type_get_envelope(MPI_DOUBLE_INT, &ni, &na, &nd, &combiner));
    CHECK_INT(combiner, MPI_COMBINER_NAMED);
    return check_end();
}
