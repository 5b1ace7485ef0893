/* A send marked for cancelling can always be waited for, whatever the receiver does: it is cancelled, and never arrives,
 * or it is not, and arrives. (MPICH 5.0 and Open MPI 5.0 wait for ever.)
 *
 * Covers: 3.8.4
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {4, 5000, 2000000};
    unsigned char *bytes = check_alloc(2000000);
    for (unsigned l = 0; l < 3; l++)
        for (int synchronous = 0; synchronous < 2; synchronous++) {
            int cancelled = 0, told = 0, flag;
            MPI_Request request;
            MPI_Status status;
            if (check_rank == 0) {
                if (synchronous)
                    CHECK_OK(MPI_Issend(bytes, lengths[l], MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request));
                else
                    CHECK_OK(MPI_Isend(bytes, lengths[l], MPI_BYTE, 1, 1, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Cancel(&request));
                CHECK_OK(MPI_Wait(&request, &status));
                CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
                /* A synchronous send that nobody receives can end in no other way. */
                if (synchronous) CHECK(cancelled);
                CHECK_OK(MPI_Send(&cancelled, 1, MPI_INT, 1, 2, MPI_COMM_WORLD));
                CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            } else {
                CHECK_OK(MPI_Recv(&told, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Iprobe(0, 1, MPI_COMM_WORLD, &flag, &status));
                if (told)
                    CHECK_INT(flag, 0);
                else
                    CHECK_OK(MPI_Recv(bytes, lengths[l], MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD));
            }
        }
    free(bytes);
    return check_end();
}
