/* Messages of every power of two from 1 byte to 64 MiB, one byte less and one more, in both directions at once.
 *
 * Covers: 3.2.4, 3.4, 3.7.2
 * Ranks: 2
 * Timeout: 120
 */
#include "check.h"

static void exchange(size_t length, unsigned char *out, struct guarded *in)
{
    int peer = 1 - check_rank, tag = (int)(length % 32767);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    fill(out, length, (unsigned)length + (unsigned)check_rank);
    memset(in->bytes, 0xA5, length + GUARD);
    CHECK_OK(MPI_Irecv(in->bytes, (int)length, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Isend(out, (int)length, MPI_BYTE, peer, tag, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, statuses));
    CHECK_STATUS(statuses[0], peer, tag, MPI_BYTE, (int)length);
    CHECK_FILL(in->bytes, length, (unsigned)length + (unsigned)peer);
    CHECK_BYTES(in->bytes + length, 0xA5, GUARD);
    CHECK_BYTES(in->whole, 0xA5, GUARD);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    size_t most = ((size_t)64 << 20) + 1;
    unsigned char *out = check_alloc(most);
    struct guarded in = guarded_new(most);
    for (int power = 0; power <= 26; power++)
        for (int delta = -1; delta <= 1; delta++) {
            in.length = ((size_t)1 << power) + (size_t)delta;
            exchange(in.length, out, &in);
        }
    free(out);
    free(in.whole);
    return check_end();
}
