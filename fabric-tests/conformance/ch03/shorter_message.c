/* A message shorter than the receive buffer changes only its own bytes, at odd addresses and sizes and in all protocols.
 *
 * Covers: 3.2.4
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {0, 1, 3, 5, 7, 9, 15, 17, 31, 33, 63, 65, 127, 255, 1023, 4095, 4097, 8193, 65535, 65537, 262147, 1048577};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int late = 0; late < 2; late++) {
            int length = lengths[i];
            if (check_rank == 0) {
                unsigned char *out = check_alloc((size_t)length);
                fill(out, (size_t)length, i);
                if (!late) CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Send(out, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD));
                free(out);
            } else {
                struct guarded in = guarded_new((size_t)length + 4099);
                MPI_Status status;
                MPI_Request request;
                if (late) {
                    /* The message is there, or has been announced, before the receive. */
                    CHECK_OK(MPI_Probe(0, 0, MPI_COMM_WORLD, &status));
                    CHECK_STATUS(status, 0, 0, MPI_BYTE, length);
                    CHECK_OK(MPI_Recv(in.bytes, length + 4099, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &status));
                } else {
                    CHECK_OK(MPI_Irecv(in.bytes, length + 4099, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
                    CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
                    CHECK_OK(MPI_Wait(&request, &status));
                }
                CHECK_STATUS(status, 0, 0, MPI_BYTE, length);
                CHECK_FILL(in.bytes, length, i);
                CHECK_BYTES(in.bytes + length, 0xA5, 4099);
                CHECK_GUARDS(in);
                free(in.whole);
            }
        }
    return check_end();
}
