/* Every message size from 0 to 300 bytes at every alignment of 0 to 8: no byte too few, none too many.
 *
 * Covers: 3.2.4
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    unsigned char out[512], in[512];
    int peer = 1 - check_rank;
    for (int length = 0; length <= 300; length++)
        for (int shift = 0; shift <= 8; shift += 1 + (length > 70)) {
            memset(in, 0xA5, sizeof in);
            fill(out + shift, (size_t)length, (unsigned)(length * 16 + shift));
            MPI_Status status;
            unsigned char *place = in + 16 + shift;
            if (check_rank == 0) {
                CHECK_OK(MPI_Send(out + shift, length, MPI_BYTE, peer, shift, MPI_COMM_WORLD));
                CHECK_OK(MPI_Recv(place, 400, MPI_BYTE, peer, shift, MPI_COMM_WORLD, &status));
            } else {
                CHECK_OK(MPI_Recv(place, length, MPI_BYTE, peer, shift, MPI_COMM_WORLD, &status));
                CHECK_OK(MPI_Send(out + shift, length, MPI_BYTE, peer, shift, MPI_COMM_WORLD));
            }
            CHECK_STATUS(status, peer, shift, MPI_BYTE, length);
            CHECK_FILL(place, length, length * 16 + shift);
            CHECK_BYTES(in, 0xA5, 16 + shift);
            CHECK_BYTES(place + length, 0xA5, sizeof in - (size_t)(16 + shift + length));
        }
    return check_end();
}
