/* Pairs of a value and an index by MPI_Type_get_value_index: the nine named ones (Fortran's where its types exist), unnamed ones in
 * MPI_MAXLOC and MPI_MINLOC, what is none.
 *
 * MPICH 5.0.2 has no unnamed pairs (section 6.9.4 allows it to answer MPI_DATATYPE_NULL); the named ones of C pass there. MPICH
 * 4.3.2 and Intel MPI 2021 do not find Fortran's named ones either.
 *
 * Covers: 6.9.4, 5.1.13
 * Ranks: 1 2 3
 */
#include "check.h"

#define TRY(VALUE, VTYPE, INDEX, ITYPE)                                                             \
    do {                                                                                            \
        struct pair { VTYPE value; ITYPE index; } in[3], out[3];                                    \
        MPI_Datatype type_, again_, inner_[2];                                                      \
        int size_, ni_, na_, nd_, combiner_;                                                        \
        MPI_Aint lb_, extent_;                                                                      \
        CHECK_OK(MPI_Type_get_value_index(VALUE, INDEX, &type_));                                   \
        CHECK(type_ != MPI_DATATYPE_NULL);                                                          \
        if (type_ == MPI_DATATYPE_NULL) break;                                                      \
        CHECK_OK(MPI_Type_get_value_index(VALUE, INDEX, &again_));                                  \
        CHECK(type_ == again_);                                                                     \
        CHECK_OK(MPI_Type_size(type_, &size_));                                                     \
        CHECK_INT(size_, sizeof(VTYPE) + sizeof(ITYPE));                                            \
        CHECK_OK(MPI_Type_get_extent(type_, &lb_, &extent_));                                       \
        CHECK_INT(extent_, sizeof(struct pair));                                                    \
        CHECK_OK(MPI_Type_get_envelope(type_, &ni_, &na_, &nd_, &combiner_));                       \
        CHECK_INT(combiner_, MPI_COMBINER_VALUE_INDEX);                                             \
        CHECK_INT(ni_, 0);                                                                          \
        CHECK_INT(na_, 0);                                                                          \
        CHECK_INT(nd_, 2);                                                                          \
        CHECK_OK(MPI_Type_get_contents(type_, 0, 0, 2, NULL, NULL, inner_));                        \
        CHECK(inner_[0] == VALUE && inner_[1] == INDEX);                                            \
        for (int i = 0; i < 3; i++) {                                                               \
            in[i].value = (VTYPE)(i == 2 ? 7 : 10 + check_rank * (i == 0 ? 1 : -1));                \
            in[i].index = (ITYPE)(100 - check_rank);                                                \
        }                                                                                           \
        CHECK_OK(MPI_Allreduce(in, out, 3, type_, MPI_MAXLOC, MPI_COMM_WORLD));                     \
        CHECK(out[0].value == (VTYPE)(9 + check_size) && out[0].index == (ITYPE)(101 - check_size)); \
        CHECK(out[1].value == (VTYPE)10 && out[1].index == (ITYPE)100);                             \
        CHECK(out[2].value == (VTYPE)7 && out[2].index == (ITYPE)(101 - check_size));               \
        CHECK_OK(MPI_Allreduce(in, out, 3, type_, MPI_MINLOC, MPI_COMM_WORLD));                     \
        CHECK(out[0].value == (VTYPE)10 && out[0].index == (ITYPE)100);                             \
        CHECK(out[2].value == (VTYPE)7 && out[2].index == (ITYPE)(101 - check_size));               \
        MPI_Datatype free_ = type_;                                                                 \
        CHECK(MPI_Type_free(&free_) != MPI_SUCCESS);                                                \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype type;
    const struct { MPI_Datatype value, index, pair; } named[] = {
        {MPI_FLOAT, MPI_INT, MPI_FLOAT_INT}, {MPI_DOUBLE, MPI_INT, MPI_DOUBLE_INT}, {MPI_LONG, MPI_INT, MPI_LONG_INT},
        {MPI_INT, MPI_INT, MPI_2INT}, {MPI_SHORT, MPI_INT, MPI_SHORT_INT}, {MPI_LONG_DOUBLE, MPI_INT, MPI_LONG_DOUBLE_INT},
        {MPI_REAL, MPI_REAL, MPI_2REAL}, {MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, MPI_2DOUBLE_PRECISION},
        {MPI_INTEGER, MPI_INTEGER, MPI_2INTEGER}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        int ni, na, nd, combiner;
        if (named[i].pair == MPI_DATATYPE_NULL) continue; /* without Fortran */
        CHECK_OK(MPI_Type_get_value_index(named[i].value, named[i].index, &type));
        CHECK(type == named[i].pair);
        CHECK_OK(MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner));
        CHECK_INT(combiner, MPI_COMBINER_NAMED);
        /* It is no duplicate: it cannot be freed. */
        CHECK(MPI_Type_free(&type) != MPI_SUCCESS);
    }
    TRY(MPI_DOUBLE, double, MPI_UINT64_T, uint64_t); /* example 6.17 */
    TRY(MPI_FLOAT, float, MPI_INT64_T, int64_t);
    TRY(MPI_INT8_T, int8_t, MPI_UINT16_T, uint16_t);
    TRY(MPI_UINT64_T, uint64_t, MPI_INT8_T, int8_t);
    TRY(MPI_LONG_DOUBLE, long double, MPI_LONG, long);
    if (MPI_REAL != MPI_DATATYPE_NULL) {
        TRY(MPI_REAL, float, MPI_INTEGER, int);
        TRY(MPI_DOUBLE_PRECISION, double, MPI_INTEGER, int);
        TRY(MPI_INTEGER, int, MPI_INT64_T, int64_t);
    }
    /* No pairs: a complex value, a value as index, a truth, characters. */
    CHECK_OK(MPI_Type_get_value_index(MPI_C_DOUBLE_COMPLEX, MPI_INT, &type));
    CHECK(type == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Type_get_value_index(MPI_INT, MPI_DOUBLE, &type));
    CHECK(type == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Type_get_value_index(MPI_C_BOOL, MPI_INT, &type));
    CHECK(type == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Type_get_value_index(MPI_CHAR, MPI_INT, &type));
    CHECK(type == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Type_get_value_index(MPI_INT, MPI_BYTE, &type));
    CHECK(type == MPI_DATATYPE_NULL);
    return check_end();
}
