/* MPI_MAXLOC and MPI_MINLOC on every pair type: the extreme value, the smaller index among equals, negative values, and
 * the padding between pairs.
 *
 * Covers: 6.9.4
 * Ranks: 1 2 3 5 8
 */
#include "check.h"

#define COUNT 29

/* Many ties: values take few levels; indices differ by rank and place. */
static int value_of(int rank, int i)
{
    return ((rank * 7 + i * 5) % 3 - 1) * (i % 2 ? 1 : 3);
}

static int index_of(int rank, int i)
{
    return (i % 3 == 0 ? 100 - rank : rank * 10) + i;
}

#define TRY(handle, type)                                                                        \
    {                                                                                            \
        struct { type value; int index; } in[COUNT], out[COUNT];                                 \
        MPI_Aint lb, extent;                                                                     \
        int size;                                                                                \
        CHECK_OK(MPI_Type_get_extent(handle, &lb, &extent));                                     \
        CHECK_INT(lb, 0);                                                                        \
        CHECK_INT(extent, sizeof in[0]);                                                         \
        CHECK_OK(MPI_Type_size(handle, &size));                                                  \
        CHECK_INT(size, sizeof(type) + sizeof(int));                                             \
        memset(in, 0, sizeof in);                                                                \
        for (int i = 0; i < COUNT; i++) {                                                        \
            in[i].value = (type)value_of(check_rank, i);                                         \
            in[i].index = index_of(check_rank, i);                                               \
        }                                                                                        \
        for (int least = 0; least < 2; least++) {                                                \
            CHECK_OK(MPI_Allreduce(in, out, COUNT, handle, least ? MPI_MINLOC : MPI_MAXLOC, MPI_COMM_WORLD)); \
            for (int i = 0; i < COUNT; i++) {                                                    \
                int value = value_of(0, i), index = index_of(0, i);                              \
                for (int r = 1; r < check_size; r++) {                                           \
                    int v = value_of(r, i), x = index_of(r, i);                                  \
                    if (least ? v < value : v > value)                                           \
                        value = v, index = x;                                                    \
                    else if (v == value && x < index)                                            \
                        index = x;                                                               \
                }                                                                                \
                if (!(out[i].value == (type)value)) CHECK_FAIL("%s least %d: value %d", #handle, least, i); \
                CHECK_INT(out[i].index, index);                                                  \
            }                                                                                    \
        }                                                                                        \
    }

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    TRY(MPI_FLOAT_INT, float)
    TRY(MPI_DOUBLE_INT, double)
    TRY(MPI_LONG_INT, long)
    TRY(MPI_2INT, int)
    TRY(MPI_SHORT_INT, short)
    TRY(MPI_LONG_DOUBLE_INT, long double)
    return check_end();
}
