/* Every blocking send mode delivers what was sent, to a receive posted before or after, at all protocol sizes.
 *
 * Covers: 3.2.4, 3.4, 3.5
 * Ranks: 2 3 5
 */
#include "check.h"

enum { STANDARD, SYNCHRONOUS, READY, MODES };

static const size_t sizes[] = {0, 1, 7, 8, 63, 64, 65, 500, 4096, 8191, 65536, 65537, 300001, 1 << 20};

static int send_in(int mode, const void *bytes, int count, int dest, int tag)
{
    switch (mode) {
    case STANDARD: return MPI_Send(bytes, count, MPI_BYTE, dest, tag, MPI_COMM_WORLD);
    case SYNCHRONOUS: return MPI_Ssend(bytes, count, MPI_BYTE, dest, tag, MPI_COMM_WORLD);
    default: return MPI_Rsend(bytes, count, MPI_BYTE, dest, tag, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    /* Even ranks send first; with an odd number of ranks the last one behaves like an odd one. */
    int sends_first = check_rank % 2 == 0 && check_rank + 1 < check_size;
    for (int mode = 0; mode < MODES; mode++)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int count = (int)sizes[s], tag = mode * 100 + (int)s;
            struct guarded out = guarded_new(sizes[s]), in = guarded_new(sizes[s]);
            fill(out.bytes, sizes[s], (unsigned)(tag + 1000 * check_rank));
            MPI_Status status;
            if (mode == READY) {
                /* The receive is posted before the sender is told so. */
                MPI_Request request;
                CHECK_OK(MPI_Irecv(in.bytes, count, MPI_BYTE, before, tag, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
                CHECK_OK(send_in(mode, out.bytes, count, next, tag));
                CHECK_OK(MPI_Wait(&request, &status));
                CHECK(request == MPI_REQUEST_NULL);
            } else if (sends_first) {
                CHECK_OK(send_in(mode, out.bytes, count, next, tag));
                CHECK_OK(MPI_Recv(in.bytes, count, MPI_BYTE, before, tag, MPI_COMM_WORLD, &status));
            } else {
                CHECK_OK(MPI_Recv(in.bytes, count, MPI_BYTE, before, tag, MPI_COMM_WORLD, &status));
                CHECK_OK(send_in(mode, out.bytes, count, next, tag));
            }
            CHECK_STATUS(status, before, tag, MPI_BYTE, count);
            CHECK_FILL(in.bytes, sizes[s], (unsigned)(tag + 1000 * before));
            CHECK_GUARDS(in);
            /* Sending reads the buffer only. */
            CHECK_FILL(out.bytes, sizes[s], (unsigned)(tag + 1000 * check_rank));
            CHECK_GUARDS(out);
            free(out.whole);
            free(in.whole);
        }
    return check_end();
}
