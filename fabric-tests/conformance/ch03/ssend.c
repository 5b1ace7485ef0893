/* A synchronous send completes only when its receive has started, also while the receiver sits in another blocking call;
 * a matched probe alone does not complete it.
 *
 * Covers: 3.4, 3.5, 3.8.2, 2.9
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {0, 4, 5000, 100000, 3000000};
    unsigned char *bytes = check_alloc(3000000);
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        int length = lengths[i], flag;
        MPI_Request request;
        MPI_Message message;
        MPI_Status status;
        if (check_rank == 0) {
            /* Not complete without a receive. */
            CHECK_OK(MPI_Issend(bytes, length, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Sendrecv(NULL, 0, MPI_INT, 1, 2, NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int k = 0; k < 50; k++) {
                CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                CHECK_INT(flag, 0);
            }
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            /* Complete once a nonblocking receive has started, though the receiver never waits for it: it waits for us. */
            CHECK_OK(MPI_Ssend(bytes, length, MPI_BYTE, 1, 4, MPI_COMM_WORLD));
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 5, MPI_COMM_WORLD));
            /* Matched, but not received. */
            CHECK_OK(MPI_Issend(bytes, length, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            for (int k = 0; k < 50; k++) {
                CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                CHECK_INT(flag, 0);
            }
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 8, MPI_COMM_WORLD));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            CHECK_OK(MPI_Sendrecv(NULL, 0, MPI_INT, 0, 2, NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Recv(bytes, length, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Irecv(bytes, length, MPI_BYTE, 0, 4, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Mprobe(0, 6, MPI_COMM_WORLD, &message, &status));
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 7, MPI_COMM_WORLD));
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Mrecv(bytes, length, MPI_BYTE, &message, &status));
        }
    }
    free(bytes);
    return check_end();
}
