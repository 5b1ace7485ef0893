/* Every predefined datatype of C: its size and extent, and a message of it, whose elements arrive and whose neighbours
 * stay as they were.
 *
 * Covers: 3.2.2, 5.1.8, 3.3.1
 * Ranks: 1 2
 */
#include "check.h"
#include "ch06/ops.h"

#define N 37

static void try_type(MPI_Datatype type, const char *name, size_t size, size_t extent)
{
    int got_size = -1, peer = check_size == 1 ? 0 : 1 - check_rank;
    MPI_Aint lb = -1, got_extent = -1, true_lb = -1, true_extent = -1;
    MPI_Count large = -1, large_lb = -1, large_extent = -1;
    CHECK_OK(MPI_Type_size(type, &got_size));
    if (got_size != (int)size) CHECK_FAIL("%s: size %d, wanted %zu", name, got_size, size);
    CHECK_OK(MPI_Type_get_extent(type, &lb, &got_extent));
    if (lb != 0 || got_extent != (MPI_Aint)extent) CHECK_FAIL("%s: extent %ld, wanted %zu", name, (long)got_extent, extent);
    CHECK_OK(MPI_Type_get_true_extent(type, &true_lb, &true_extent));
    CHECK_INT(true_lb, 0);
    CHECK(true_extent >= (MPI_Aint)size && true_extent <= (MPI_Aint)extent);
    CHECK_OK(MPI_Type_size_c(type, &large));
    CHECK_INT(large, size);
    CHECK_OK(MPI_Type_get_extent_c(type, &large_lb, &large_extent));
    CHECK_INT(large_extent, extent);

    struct guarded out = guarded_new(extent * N), in = guarded_new(extent * N);
    fill(out.bytes, out.length, (unsigned)size);
    MPI_Request request;
    MPI_Status status;
    CHECK_OK(MPI_Isend(out.bytes, N, type, peer, 1, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(in.bytes, N, type, peer, 1, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_STATUS(status, peer, 1, type, N);
    if (size == extent)
        CHECK_FILL(in.bytes, in.length, (unsigned)size);
    CHECK_GUARDS(in);
    free(out.whole);
    free(in.whole);
}

#define TRY(handle, type) try_type(handle, #handle, sizeof(type), sizeof(type));
#define TRY_PAIR(handle, type)                                                          \
    {                                                                                   \
        struct pair { type value; int index; };                                         \
        struct pair sent[N], got[N];                                                    \
        memset(got, 0x77, sizeof got);                                                  \
        for (int i = 0; i < N; i++) sent[i].value = (type)(i + 1), sent[i].index = -i;  \
        try_type(handle, #handle, sizeof(type) + sizeof(int), sizeof(struct pair));     \
        CHECK_OK(MPI_Sendrecv(sent, N, handle, check_rank, 2, got, N, handle, check_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); \
        for (int i = 0; i < N; i++) {                                                   \
            CHECK(got[i].value == (type)(i + 1));                                       \
            CHECK_INT(got[i].index, -i);                                                \
            size_t used = offsetof(struct pair, index) + sizeof(int);                   \
            CHECK_BYTES((char *)&got[i] + used, 0x77, sizeof(struct pair) - used);      \
        }                                                                               \
    }

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    EACH_INTEGER(TRY)
    EACH_ADDRESS(TRY)
    EACH_FLOATING(TRY)
    EACH_COMPLEX(TRY)
    TRY(MPI_CHAR, char)
    TRY(MPI_WCHAR, wchar_t)
    TRY(MPI_C_BOOL, _Bool)
    TRY(MPI_BYTE, char)
    TRY(MPI_PACKED, char)
    TRY_PAIR(MPI_FLOAT_INT, float)
    TRY_PAIR(MPI_DOUBLE_INT, double)
    TRY_PAIR(MPI_LONG_INT, long)
    TRY_PAIR(MPI_2INT, int)
    TRY_PAIR(MPI_SHORT_INT, short)
    TRY_PAIR(MPI_LONG_DOUBLE_INT, long double)
    return check_end();
}
