/* Fortran's parameterised types and types by size: sizes, one handle for each question, decoding, reductions, no freeing.
 *
 * MPICH 5.0.2 lets these types be freed, against section 19.1.9; the rest passes there.
 *
 * Covers: 19.1.9, 5.1.13, 2.4.3
 * Ranks: 1 2
 */
#include "check.h"

static void is(MPI_Datatype type, int bytes, int combiner, int p, int r)
{
    int size, ni, na, nd, made_by, values[2] = {-1, -1};
    CHECK_OK(MPI_Type_size(type, &size));
    CHECK_INT(size, bytes);
    CHECK_OK(MPI_Type_get_envelope(type, &ni, &na, &nd, &made_by));
    CHECK_INT(made_by, combiner);
    CHECK_INT(na, 0);
    CHECK_INT(nd, 0);
    CHECK_INT(ni, combiner == MPI_COMBINER_F90_INTEGER ? 1 : 2);
    CHECK_OK(MPI_Type_get_contents(type, ni, 0, 0, values, NULL, NULL));
    CHECK_INT(values[0], p);
    if (ni == 2) CHECK_INT(values[1], r);
    MPI_Datatype copy = type;
    CHECK(MPI_Type_free(&copy) != MPI_SUCCESS);
    CHECK(copy == type);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype type, again;
    static const int reals[][3] = {{6, 37, 4}, {6, MPI_UNDEFINED, 4}, {MPI_UNDEFINED, 37, 4}, {7, 37, 8}, {6, 38, 8},
                                   {15, 307, 8}, {MPI_UNDEFINED, 100, 8}, {16, 307, 16}, {18, 4931, 16}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        int p = reals[i][0], r = reals[i][1];
        CHECK_OK(MPI_Type_create_f90_real(p, r, &type));
        CHECK_OK(MPI_Type_create_f90_real(p, r, &again));
        CHECK(type == again);
        is(type, reals[i][2], MPI_COMBINER_F90_REAL, p, r);
        CHECK_OK(MPI_Type_create_f90_complex(p, r, &type));
        is(type, 2 * reals[i][2], MPI_COMBINER_F90_COMPLEX, p, r);
    }
    static const int integers[][2] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 4}, {9, 4}, {10, 8}, {18, 8}, {19, 16}, {38, 16}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        CHECK_OK(MPI_Type_create_f90_integer(integers[i][0], &type));
        is(type, integers[i][1], MPI_COMBINER_F90_INTEGER, integers[i][0], 0);
        MPI_Aint external;
        char rep[] = "external32";
        CHECK_OK(MPI_Pack_external_size(rep, 1, type, &external));
        CHECK_INT(external, integers[i][1]);
    }
    CHECK(MPI_Type_create_f90_integer(39, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_create_f90_real(40, 10, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_create_f90_real(6, 5000, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_create_f90_real(MPI_UNDEFINED, MPI_UNDEFINED, &type) != MPI_SUCCESS);

    /* In communication without a commit, in predefined reductions, inside a derived type that gives the handle back. */
    double in = check_rank + 1.5, sum = 0;
    CHECK_OK(MPI_Type_create_f90_real(15, 307, &type));
    CHECK_OK(MPI_Allreduce(&in, &sum, 1, type, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == (check_size == 1 ? 1.5 : 4.0));
    MPI_Datatype pair, inner;
    int integer;
    CHECK_OK(MPI_Type_contiguous(2, type, &pair));
    CHECK_OK(MPI_Type_get_contents(pair, 1, 0, 1, &integer, NULL, &inner));
    CHECK(inner == type);
    CHECK_OK(MPI_Type_free(&pair));

    static const struct { int typeclass, size; } sizes[] = {
        {MPI_TYPECLASS_INTEGER, 1}, {MPI_TYPECLASS_INTEGER, 2}, {MPI_TYPECLASS_INTEGER, 4}, {MPI_TYPECLASS_INTEGER, 8},
        {MPI_TYPECLASS_REAL, 4}, {MPI_TYPECLASS_REAL, 8}, {MPI_TYPECLASS_COMPLEX, 8}, {MPI_TYPECLASS_COMPLEX, 16},
        {MPI_TYPECLASS_REAL, sizeof(long double)}, {MPI_TYPECLASS_COMPLEX, 2 * sizeof(long double)}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int size, ni, na, nd, combiner;
        CHECK_OK(MPI_Type_match_size(sizes[i].typeclass, sizes[i].size, &type));
        CHECK_OK(MPI_Type_size(type, &size));
        CHECK_INT(size, sizes[i].size);
        CHECK_OK(MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner));
        CHECK_INT(combiner, MPI_COMBINER_NAMED);
    }
    CHECK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 5, &type) != MPI_SUCCESS);
    CHECK(MPI_Type_match_size(-7, 4, &type) != MPI_SUCCESS);
    return check_end();
}
