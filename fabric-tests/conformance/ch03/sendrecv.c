/* MPI_Sendrecv and MPI_Sendrecv_replace in rings, with plain partners, with different counts, types and tags each way.
 *
 * Covers: 3.2.7, 3.5
 * Ranks: 1 2 3 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Status status;
    for (int length = 1; length <= 3000000; length = length * 5 + 1) {
        unsigned char *out = check_alloc((size_t)length + 1000);
        struct guarded in = guarded_new((size_t)length + 1000);
        int mine = length + check_rank, theirs = length + before;
        /* Everyone at once; lengths differ by rank. */
        fill(out, (size_t)mine, (unsigned)mine);
        CHECK_OK(MPI_Sendrecv(out, mine, MPI_BYTE, next, 3, in.bytes, length + 1000, MPI_BYTE, before, 3, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, before, 3, MPI_BYTE, theirs);
        CHECK_FILL(in.bytes, theirs, theirs);
        CHECK_BYTES(in.bytes + theirs, 0xA5, 1000 - before);
        CHECK_GUARDS(in);
        /* In place. */
        fill(in.bytes, (size_t)length, (unsigned)check_rank);
        CHECK_OK(MPI_Sendrecv_replace(in.bytes, length, MPI_BYTE, next, 4, before, 4, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, before, 4, MPI_BYTE, length);
        CHECK_FILL(in.bytes, length, before);
        CHECK_GUARDS(in);
        /* With a partner that uses plain calls; wildcards. */
        if (check_size >= 2) {
            fill(out, (size_t)length, (unsigned)check_rank + 50);
            if (check_rank == 0) {
                CHECK_OK(MPI_Sendrecv(out, length, MPI_BYTE, 1, 5, in.bytes, length, MPI_BYTE, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &status));
                CHECK_STATUS(status, 1, 6, MPI_BYTE, length);
                CHECK_FILL(in.bytes, length, 51);
            } else if (check_rank == 1) {
                MPI_Request request;
                CHECK_OK(MPI_Isend(out, length, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Probe(0, 5, MPI_COMM_WORLD, &status));
                CHECK_OK(MPI_Recv(in.bytes, length, MPI_BYTE, 0, 5, MPI_COMM_WORLD, &status));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                CHECK_FILL(in.bytes, length, 50);
            }
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
        free(out);
        free(in.whole);
    }
    /* Different types at the two ends of one call. */
    double numbers[4] = {check_rank + 0.5, 1, 2, 3};
    int count = check_rank, got = -1;
    CHECK_OK(MPI_Sendrecv(&count, 1, MPI_INT, next, 7, &got, 1, MPI_INT, before, 7, MPI_COMM_WORLD, &status));
    CHECK_INT(got, before);
    CHECK_OK(MPI_Sendrecv_replace(numbers, 4, MPI_DOUBLE, before, 8, next, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(numbers[0] == next + 0.5 && numbers[3] == 3);
    return check_end();
}
