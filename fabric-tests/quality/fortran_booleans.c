/* What a Fortran compiler takes for .TRUE. and .FALSE., told by MPI_Abi_set_fortran_booleans, is what reductions on MPI_LOGICAL and its sizes
 * write: here -1, in every size; whatever is not .FALSE. is read as true. Before, it is 1; truths of C and C++ stay 1. It can be
 * told once.
 *
 * Covers: 6.9.2, 20
 * Ranks: 1 2 3 5
 */
#include "check.h"

enum { N = 8 };

/* Operand i of a rank: of each three some are true, in several ways. */
static int truth(int rank, int i) { return i == 0 ? 0 : i == 1 ? 1 : (rank + i) % 3 != 0; }

static void put(unsigned char *bytes, int size, int value)
{
    memset(bytes, value < 0 ? 0xFF : 0, (size_t)size);
    bytes[0] = (unsigned char)value;
}

static void check_type(MPI_Datatype type, const char *name, int yes)
{
    static const MPI_Op ops[] = {MPI_LAND, MPI_LOR, MPI_LXOR};
    unsigned char in[16 * N], out[16 * N], wanted[16];
    int size;
    if (type == MPI_DATATYPE_NULL) return;
    CHECK_OK(MPI_Type_size(type, &size));
    for (int i = 0; i < N; i++) put(in + i * size, size, truth(check_rank, i) ? (i % 2 ? yes : 2) : 0);
    for (int form = 0; form < 3; form++)
        for (int o = 0; o < 3; o++) {
            memset(out, 0x55, sizeof out);
            if (form == 0) CHECK_OK(MPI_Allreduce(in, out, N, type, ops[o], MPI_COMM_WORLD));
            else if (form == 1) CHECK_OK(MPI_Scan(in, out, N, type, ops[o], MPI_COMM_WORLD));
            else {
                memcpy(out, in, sizeof out);
                CHECK_OK(MPI_Reduce_local(in, out, N, type, ops[o]));
            }
            /* Where nothing is combined, what was given stays. */
            int first = form == 2 ? check_rank : 0, last = form == 0 ? check_size - 1 : check_rank, combined = form == 2 || last > first;
            for (int i = 0; i < N && combined; i++) {
                int a = truth(first, i);
                for (int r = form == 2 ? last : first + 1; r <= last; r++) {
                    int b = truth(r, i);
                    a = o == 0 ? a && b : o == 1 ? a || b : a != b;
                }
                put(wanted, size, a ? yes : 0);
                if (memcmp(out + i * size, wanted, (size_t)size) != 0)
                    CHECK_FAIL("%s, form %d, operation %d, element %d: first byte %d, wanted %d", name, form, o, i, out[i * size], wanted[0]);
            }
        }
}

#define EACH(yes)                                                                                                            \
    check_type(MPI_LOGICAL, "MPI_LOGICAL", yes), check_type(MPI_LOGICAL1, "MPI_LOGICAL1", yes),                              \
        check_type(MPI_LOGICAL2, "MPI_LOGICAL2", yes), check_type(MPI_LOGICAL4, "MPI_LOGICAL4", yes),                        \
        check_type(MPI_LOGICAL8, "MPI_LOGICAL8", yes), check_type(MPI_LOGICAL16, "MPI_LOGICAL16", yes)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int32_t yes = -1, no = 0, got_yes = 5, got_no = 5;
    int set = 1;
    EACH(1);
    CHECK_OK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &set));
    CHECK_INT(set, 0);
    /* Two literals of the same bytes are none; nothing was told. */
    CHECK(MPI_Abi_set_fortran_booleans(4, &no, &no) != MPI_SUCCESS);
    CHECK_OK(MPI_Abi_set_fortran_booleans(4, &yes, &no));
    CHECK_CLASS(MPI_Abi_set_fortran_booleans(4, &(int32_t){1}, &no), MPI_ERR_ABI);
    CHECK_OK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &set));
    CHECK_INT(set, 1);
    CHECK_INT(got_yes, -1);
    CHECK_INT(got_no, 0);
    CHECK_OK(MPI_Abi_get_fortran_booleans(8, &got_yes, &got_no, &set));
    CHECK_INT(set, 0);
    EACH(-1);
    check_type(MPI_C_BOOL, "MPI_C_BOOL", 1);
    if (MPI_CXX_BOOL != MPI_DATATYPE_NULL) check_type(MPI_CXX_BOOL, "MPI_CXX_BOOL", 1);
    return check_end();
}
