/* The grant of a partitioned receive may come in two steps, when its sender has filled what the other side keeps of messages that nobody
 * awaits: partitions travel all the same, in this start and in later ones.
 *
 * Covers: 4.2.1, 4.2.2
 * Ranks: 2
 */
#include "check.h"

enum { TURNS = 12, FLOOD = 600, BYTES = 4096, PARTS = 4, STARTS = 4 };

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static MPI_Request flood[FLOOD];
    static unsigned char block[BYTES], data[PARTS * 100];
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request request;
        if (check_rank == 1) {
            for (int i = 0; i < FLOOD; i++)
                CHECK_OK(MPI_Isend(block, BYTES, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &flood[i]));
            CHECK_OK(MPI_Precv_init(data, PARTS, 100, MPI_BYTE, 0, turn, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        } else {
            CHECK_OK(MPI_Psend_init(data, PARTS, 100, MPI_BYTE, 1, turn, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        }
        for (int start = 0; start < STARTS; start++) {
            CHECK_OK(MPI_Start(&request));
            if (check_rank == 0) {
                fill(data, sizeof data, (unsigned)(turn * STARTS + start));
                for (int i = 0; i < PARTS; i++) CHECK_OK(MPI_Pready(i, request));
            }
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (check_rank == 1) CHECK_FILL(data, sizeof data, (unsigned)(turn * STARTS + start));
        }
        CHECK_OK(MPI_Request_free(&request));
        if (check_rank == 1)
            CHECK_OK(MPI_Waitall(FLOOD, flood, MPI_STATUSES_IGNORE));
        else
            for (int i = 0; i < FLOOD; i++)
                CHECK_OK(MPI_Recv(block, BYTES, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    return check_end();
}
