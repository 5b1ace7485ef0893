/* MPI_Request_free of active sends and receives: the handle is null, the communication still happens.
 *
 * Covers: 3.7.3, 2.5.1
 * Ranks: 2
 */
#include "check.h"

#define N 20

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {0, 8, 3000, 70000, 1500000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        int length = lengths[l];
        unsigned char *out = check_alloc((size_t)length * N), *in = check_alloc((size_t)length);
        if (check_rank == 0) {
            for (int i = 0; i < N; i++) {
                MPI_Request request;
                fill(out + (size_t)i * (size_t)length, (size_t)length, (unsigned)i);
                if (i % 2)
                    CHECK_OK(MPI_Isend(out + (size_t)i * (size_t)length, length, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request));
                else
                    CHECK_OK(MPI_Issend(out + (size_t)i * (size_t)length, length, MPI_BYTE, 1, i, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Request_free(&request));
                CHECK(request == MPI_REQUEST_NULL);
            }
            /* The buffer may be used again once the receiver says that it has everything. */
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        } else {
            MPI_Status status;
            for (int i = N - 1; i >= 0; i--) {
                memset(in, 0, (size_t)length);
                CHECK_OK(MPI_Recv(in, length, MPI_BYTE, 0, i, MPI_COMM_WORLD, &status));
                CHECK_STATUS(status, 0, i, MPI_BYTE, length);
                CHECK_FILL(in, length, i);
            }
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 99, MPI_COMM_WORLD));
        }
        /* A freed receive: the message that follows it in order proves that it has taken its own. */
        if (check_rank == 0) {
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 98, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            fill(out, (size_t)length, 5);
            CHECK_OK(MPI_Ssend(out, length, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
            CHECK_OK(MPI_Ssend(out, 0, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
        } else {
            MPI_Request request;
            MPI_Status status;
            memset(in, 0, (size_t)length);
            CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Request_free(&request));
            CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 98, MPI_COMM_WORLD));
            CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 7, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, 0, 7, MPI_BYTE, 0);
            CHECK_FILL(in, length, 5);
        }
        free(out);
        free(in);
    }
    return check_end();
}
