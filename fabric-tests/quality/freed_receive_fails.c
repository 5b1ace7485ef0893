/* Nobody can be returned the error of a receive that was freed while it was active: the error handler of its communicator hears of it, in the
 * next call that makes progress, and once.
 *
 * Covers: 3.7.3, 9.3
 * Ranks: 2
 */
#include "check.h"

static int calls, classes[8];

static void heard(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    if (calls < 8) MPI_Error_class(*code, &classes[calls]);
    calls++;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {2, 300, 20000, 200000};
    static char data[400000], room[400000];
    MPI_Comm comm;
    MPI_Errhandler handler;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_create_errhandler(heard, &handler));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int early = 0; early < 2; early++) {
            int done = 0;
            calls = 0;
            if (check_rank == 1) {
                MPI_Request request;
                CHECK_OK(MPI_Irecv(room, lengths[l], MPI_BYTE, 0, 1, comm, &request));
                if (early) CHECK_OK(MPI_Request_free(&request));
                CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
                CHECK_OK(MPI_Recv(&done, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                if (!early) CHECK_OK(MPI_Request_free(&request));
                for (int i = 0; i < 3; i++) CHECK_OK(MPI_Iprobe(0, 9, comm, &done, MPI_STATUS_IGNORE));
                CHECK_INT(calls, 1);
                CHECK_INT(classes[0], MPI_ERR_TRUNCATE);
            } else {
                CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Send(data, 2 * lengths[l], MPI_BYTE, 1, 1, comm));
                CHECK_OK(MPI_Send(&done, 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
                CHECK_INT(calls, 0);
            }
        }
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
