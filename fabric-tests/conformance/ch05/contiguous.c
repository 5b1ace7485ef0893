/* Contiguous types: size, extent, nesting, the same signature at both ends by different types, types freed while used.
 *
 * Covers: 5.1.2, 5.1.9, 5.1.11, 2.5.1
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = check_size == 1 ? 0 : 1 - check_rank, size, count, out[120], in[121];
    MPI_Aint lb, extent;
    MPI_Datatype five, twenty, pairs, nothing;
    MPI_Request request;
    MPI_Status status;
    CHECK_OK(MPI_Type_contiguous(5, MPI_INT, &five));
    CHECK_OK(MPI_Type_contiguous(4, five, &twenty)); /* of an uncommitted type */
    CHECK_OK(MPI_Type_commit(&five));
    CHECK_OK(MPI_Type_commit(&five));
    CHECK_OK(MPI_Type_commit(&twenty));
    CHECK_OK(MPI_Type_size(twenty, &size));
    CHECK_INT(size, 80);
    CHECK_OK(MPI_Type_get_extent(twenty, &lb, &extent));
    CHECK_INT(lb, 0);
    CHECK_INT(extent, 80);
    for (int i = 0; i < 120; i++) out[i] = 500 * check_rank + i;

    /* 6 x twenty -> 24 x five -> 120 ints, any of them to any. */
    MPI_Datatype kinds[3] = {twenty, five, MPI_INT};
    static const int counts[3] = {6, 24, 120};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            memset(in, 0xFF, sizeof in);
            CHECK_OK(MPI_Isend(out, counts[a], kinds[a], peer, 3, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Recv(in, counts[b], kinds[b], peer, 3, MPI_COMM_WORLD, &status));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int i = 0; i < 120; i++) CHECK_INT(in[i], 500 * peer + i);
            CHECK_INT(in[120], -1);
            for (int k = 0; k < 3; k++) {
                CHECK_OK(MPI_Get_count(&status, kinds[k], &count));
                CHECK_INT(count, counts[k]);
            }
        }
    /* Parts of an element: undefined count, defined elements. */
    CHECK_OK(MPI_Isend(out, 12, MPI_INT, peer, 4, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(in, 24, five, peer, 4, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Get_count(&status, five, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_elements(&status, five, &count));
    CHECK_INT(count, 12);

    /* Freed while a receive of it is pending, and while another type is built on it. */
    memset(in, 0xFF, sizeof in);
    CHECK_OK(MPI_Irecv(in, 6, twenty, peer, 5, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Type_free(&twenty));
    CHECK(twenty == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Send(out, 24, five, peer, 5, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, &status));
    for (int i = 0; i < 120; i++) CHECK_INT(in[i], 500 * peer + i);
    CHECK_OK(MPI_Type_contiguous(2, five, &pairs));
    CHECK_OK(MPI_Type_free(&five));
    CHECK_OK(MPI_Type_commit(&pairs));
    memset(in, 0xFF, sizeof in);
    CHECK_OK(MPI_Sendrecv(out, 12, pairs, peer, 6, in, 12, pairs, peer, 6, MPI_COMM_WORLD, &status));
    for (int i = 0; i < 120; i++) CHECK_INT(in[i], 500 * peer + i);
    CHECK_OK(MPI_Type_free(&pairs));

    /* A type of nothing, and a contiguous type of a pair type with padding. */
    CHECK_OK(MPI_Type_contiguous(0, MPI_DOUBLE, &nothing));
    CHECK_OK(MPI_Type_commit(&nothing));
    CHECK_OK(MPI_Type_size(nothing, &size));
    CHECK_INT(size, 0);
    CHECK_OK(MPI_Sendrecv(out, 7, nothing, peer, 7, in, 7, nothing, peer, 7, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_INT(count, 0);
    CHECK_OK(MPI_Type_free(&nothing));
    struct { double value; int index; } numbers[6], got[6];
    memset(got, 0, sizeof got);
    for (int i = 0; i < 6; i++) numbers[i].value = i / 2.0, numbers[i].index = i;
    CHECK_OK(MPI_Type_contiguous(3, MPI_DOUBLE_INT, &pairs));
    CHECK_OK(MPI_Type_commit(&pairs));
    CHECK_OK(MPI_Type_size(pairs, &size));
    CHECK_INT(size, 36);
    CHECK_OK(MPI_Type_get_extent(pairs, &lb, &extent));
    CHECK_INT(extent, 3 * sizeof numbers[0]);
    CHECK_OK(MPI_Sendrecv(numbers, 2, pairs, peer, 8, got, 6, MPI_DOUBLE_INT, peer, 8, MPI_COMM_WORLD, &status));
    for (int i = 0; i < 6; i++) {
        CHECK(got[i].value == i / 2.0);
        CHECK_INT(got[i].index, i);
    }
    CHECK_OK(MPI_Type_free(&pairs));
    return check_end();
}
