/* Example 11.7: a synchronous send without a receive is cancelled, which must succeed; the wait for it is local, so that it returns though the
 * other process is in MPI_Finalize already, and MPI_Finalize returns everywhere. All lengths, nonblocking and persistent. Cancelling sends is
 * deprecated and required.
 *
 * Covers: 11.2.2, 3.8.4
 * Ranks: 2 3
 *
 * [MPICH 5.0 and Open MPI 5.0 cancel no sends over shared memory: their waits do not return.]
 */
#include "check.h"

static char data[1 << 20];

static void cancel(MPI_Request *request)
{
    MPI_Status status;
    int cancelled = 0;
    CHECK_OK(MPI_Cancel(request));
    CHECK_OK(MPI_Wait(request, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(cancelled);
}

int main(int argc, char **argv)
{
    static const int lengths[] = {0, 1, 4096, 100000, 1 << 20};
    check_start(&argc, &argv);
    if (check_rank == 0) {
        /* By now the others are in MPI_Finalize. */
        usleep(100000);
        for (int to = 1; to < check_size; to++)
            for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
                MPI_Request request;
                CHECK_OK(MPI_Issend(data, lengths[i], MPI_CHAR, to, 7, MPI_COMM_WORLD, &request));
                cancel(&request);
                CHECK(request == MPI_REQUEST_NULL);
                CHECK_OK(MPI_Ssend_init(data, lengths[i], MPI_CHAR, to, 8, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Start(&request));
                cancel(&request);
                CHECK_OK(MPI_Request_free(&request));
            }
    }
    MPI_Finalize();
    return check_verdict();
}
