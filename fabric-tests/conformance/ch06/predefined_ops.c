/* Every predefined operation on every C type that section 6.9.2 defines it for, with exact expected values, through
 * MPI_Allreduce and MPI_Reduce.
 *
 * Covers: 6.9.2, 6.9.6
 * Ranks: 1 2 3 4 5 8
 */
#include "check.h"
#include "ch06/ops.h"

/* Small values, so that products of eight stay exact in every type. */
static int give(int rank, int i)
{
    return 1 + (rank * 5 + i * 3) % 2 + (i % 4 == 0 && rank == i % 8);
}

#define BEGIN(handle, type)                                                                      \
    {                                                                                            \
        type in[COUNT], out[COUNT + 1], want[COUNT] = {0}; (void)want;                                           \
        for (int i = 0; i < COUNT; i++) in[i] = (type)give(check_rank, i);

#define TRY(handle, type, op, start, step)                                                       \
    for (int i = 0; i < COUNT; i++) {                                                            \
        type a = (type)give(0, i);                                                               \
        start;                                                                                   \
        for (int r = 1; r < check_size; r++) {                                                   \
            type b = (type)give(r, i);                                                           \
            step;                                                                                \
        }                                                                                        \
        want[i] = a;                                                                             \
    }                                                                                            \
    memset(out, 0x55, sizeof out);                                                               \
    CHECK_OK(MPI_Allreduce(in, out, COUNT, handle, op, MPI_COMM_WORLD));                         \
    for (int i = 0; i < COUNT; i++)                                                              \
        if (!(out[i] == want[i])) CHECK_FAIL("Allreduce %s on %s: element %d", #op, #handle, i);  \
    CHECK_BYTES(&out[COUNT], 0x55, sizeof out[COUNT]);                                           \
    memset(out, 0x55, sizeof out);                                                               \
    CHECK_OK(MPI_Reduce(in, out, COUNT, handle, op, check_size - 1, MPI_COMM_WORLD));            \
    if (check_rank == check_size - 1)                                                            \
        for (int i = 0; i < COUNT; i++)                                                          \
            if (!(out[i] == want[i])) CHECK_FAIL("Reduce %s on %s: element %d", #op, #handle, i);

#define ORDERED(h, t)                                  \
    TRY(h, t, MPI_MAX, (void)0, a = b > a ? b : a)     \
    TRY(h, t, MPI_MIN, (void)0, a = b < a ? b : a)

#define ARITHMETIC(h, t)                               \
    TRY(h, t, MPI_SUM, (void)0, a = (t)(a + b))        \
    TRY(h, t, MPI_PROD, (void)0, a = (t)(a * b))

#define BITWISE(h, t)                                  \
    TRY(h, t, MPI_BAND, (void)0, a = (t)(a & b))       \
    TRY(h, t, MPI_BOR, (void)0, a = (t)(a | b))        \
    TRY(h, t, MPI_BXOR, (void)0, a = (t)(a ^ b))

/* The inputs of logical operations have zeros too. */
#define LOGICAL(h, t)                                                                            \
    for (int round = 0; round < 2; round++) {                                                    \
        type_in_for_logical(in, round);                                                          \
        LOGICAL_TRY(h, t, MPI_LAND, a && b)                                                      \
        LOGICAL_TRY(h, t, MPI_LOR, a || b)                                                       \
        LOGICAL_TRY(h, t, MPI_LXOR, !a != !b)                                                    \
    }

static int truth(int rank, int i, int round)
{
    return (rank + i + round) % 3 == 0 ? 0 : round ? 1 + i % 5 : 1;
}

#define type_in_for_logical(in, round) \
    for (int i = 0; i < COUNT; i++) in[i] = truth(check_rank, i, round)

#define LOGICAL_TRY(h, t, op, expression)                                                        \
    memset(out, 0x55, sizeof out);                                                               \
    CHECK_OK(MPI_Allreduce(in, out, COUNT, h, op, MPI_COMM_WORLD));                              \
    for (int i = 0; i < COUNT; i++) {                                                            \
        int a = truth(0, i, round) != 0;                                                         \
        for (int r = 1; r < check_size; r++) {                                                   \
            int b = truth(r, i, round) != 0;                                                     \
            a = (expression);                                                                    \
        }                                                                                        \
        if (check_size > 1 && (!out[i] != !a || (out[i] != 0 && out[i] != 1)))                   \
            CHECK_FAIL("%s on %s: element %d", #op, #h, i);                                      \
    }

#define END }

#define TRY_INTEGER(h, t) BEGIN(h, t) ORDERED(h, t) ARITHMETIC(h, t) BITWISE(h, t) LOGICAL(h, t) END
#define TRY_ADDRESS(h, t) BEGIN(h, t) ORDERED(h, t) ARITHMETIC(h, t) BITWISE(h, t) END
#define TRY_FLOATING(h, t) BEGIN(h, t) ORDERED(h, t) ARITHMETIC(h, t) END
#define TRY_COMPLEX(h, t) BEGIN(h, t) ARITHMETIC(h, t) END
#define TRY_BOOL(h, t) BEGIN(h, t) LOGICAL(h, t) END
#define TRY_BYTE(h, t) BEGIN(h, t) BITWISE(h, t) END

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    EACH_INTEGER(TRY_INTEGER)
    EACH_ADDRESS(TRY_ADDRESS)
    EACH_FLOATING(TRY_FLOATING)
    EACH_COMPLEX(TRY_COMPLEX)
    TRY_BOOL(MPI_C_BOOL, _Bool)
    TRY_BYTE(MPI_BYTE, unsigned char)
    return check_end();
}
