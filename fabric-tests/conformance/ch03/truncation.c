/* A message longer than the receive buffer is an error of class MPI_ERR_TRUNCATE that never writes past the buffer, and
 * later messages are not disturbed: odd sizes, all protocols, every receiving call. Whose message it was is told all the same.
 *
 * Covers: 3.2.4, 2.8, 3.8.3
 * Ranks: 2 3
 * [MPICH 4.3 returns MPI_SUCCESS where a receive of any source is posted after its message has come.]
 */
#include "check.h"

enum { RECV, IRECV_POSTED, IRECV_LATE, MRECV, IMRECV, SENDRECV, HOWS, TAG = 6 };

static const int pairs[][2] = {
    /* sent, room */
    {1, 0}, {3, 1}, {7, 5}, {8, 7}, {65, 64}, {129, 1}, {1001, 999}, {4097, 4096}, {8193, 3},
    {65537, 65535}, {70001, 0}, {262147, 262145}, {1048579, 1048577}, {4194305, 77},
};

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (unsigned p = 0; p < sizeof pairs / sizeof *pairs; p++)
        for (int how = 0; how < HOWS; how++) {
            int sent = pairs[p][0], room = pairs[p][1];
            if (check_rank == 0) {
                unsigned char *out = check_alloc((size_t)sent);
                fill(out, (size_t)sent, p);
                CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Send(out, sent, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
                int after = 4711 + how;
                CHECK_OK(MPI_Send(&after, 1, MPI_INT, 1, TAG, MPI_COMM_WORLD));
                free(out);
            } else if (check_rank == 1) {
                struct guarded in = guarded_new((size_t)room);
                MPI_Status status;
                MPI_Request request;
                MPI_Message message;
                int code = MPI_SUCCESS, nothing = 0, known = 1;
                int source = p % 2 ? MPI_ANY_SOURCE : 0, tag = p % 3 ? MPI_ANY_TAG : TAG;
                status.MPI_SOURCE = status.MPI_TAG = -77;
                if (how == IRECV_POSTED)
                    CHECK_OK(MPI_Irecv(in.bytes, room, MPI_BYTE, source, tag, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
                switch (how) {
                case RECV: code = MPI_Recv(in.bytes, room, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status); break;
                case IRECV_POSTED: code = MPI_Wait(&request, &status); break;
                case IRECV_LATE:
                    CHECK_OK(MPI_Probe(source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    /* A late receive may find the error at once or at its completion. */
                    code = MPI_Irecv(in.bytes, room, MPI_BYTE, source, tag, MPI_COMM_WORLD, &request);
                    known = code == MPI_SUCCESS;
                    if (known) code = MPI_Wait(&request, &status);
                    break;
                case MRECV:
                    CHECK_OK(MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
                    code = MPI_Mrecv(in.bytes, room, MPI_BYTE, &message, &status);
                    break;
                case IMRECV:
                    CHECK_OK(MPI_Mprobe(source, tag, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
                    code = MPI_Imrecv(in.bytes, room, MPI_BYTE, &message, &request);
                    known = code == MPI_SUCCESS;
                    if (known) code = MPI_Wait(&request, &status);
                    break;
                default:
                    code = MPI_Sendrecv(&nothing, 0, MPI_INT, MPI_PROC_NULL, 0, in.bytes, room, MPI_BYTE, source, tag,
                                        MPI_COMM_WORLD, &status);
                }
                CHECK_CLASS(code, MPI_ERR_TRUNCATE);
                if (known) {
                    CHECK_INT(status.MPI_SOURCE, 0);
                    CHECK_INT(status.MPI_TAG, TAG);
                }
                CHECK_GUARDS(in);
                free(in.whole);
                int after = 0;
                CHECK_OK(MPI_Recv(&after, 1, MPI_INT, source, tag, MPI_COMM_WORLD, &status));
                CHECK_INT(after, 4711 + how);
            }
        }
    return check_end();
}
