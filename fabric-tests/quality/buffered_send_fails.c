/* A process is killed before it has received buffered messages. Their sends were complete, so no call can return that they failed: the error
 * handler of their communicator hears of each, once, whether its request was waited for, freed, or never there. The buffer is free again.
 *
 * Covers: 3.4, 3.6, 3.7.3, 9.3
 * Ranks: 2
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "check.h"
#include <signal.h>
#include <stdlib.h>

enum { LENGTH = 1 << 20, MESSAGES = 5 };

static int calls, others;
static MPI_Comm comm;

static void heard(MPI_Comm *of, int *code, ...)
{
    int class;
    MPI_Error_class(*code, &class);
    if (*of != comm || class != MPI_ERR_PROC_ABORTED) others++;
    calls++;
}

int main(int argc, char **argv)
{
    static char data[LENGTH];
    int flag = 0, size = MESSAGES * (LENGTH + MPI_BSEND_OVERHEAD);
    MPI_Errhandler handler;
    MPI_Request request;
    check_start(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    if (check_rank == 1) {
        CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        kill(getpid(), SIGKILL);
    }
    CHECK_OK(MPI_Comm_create_errhandler(heard, &handler));
    CHECK_OK(MPI_Comm_set_errhandler(comm, handler));
    void *buffer = malloc(size), *back = NULL;
    CHECK_OK(MPI_Buffer_attach(buffer, size));
    CHECK_OK(MPI_Bsend(data, LENGTH, MPI_BYTE, 1, 2, comm));
    CHECK_OK(MPI_Ibsend(data, LENGTH, MPI_BYTE, 1, 2, comm, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Ibsend(data, LENGTH, MPI_BYTE, 1, 2, comm, &request));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Bsend_init(data, LENGTH, MPI_BYTE, 1, 2, comm, &request));
    CHECK_OK(MPI_Start(&request));
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Ibsend(data, LENGTH, MPI_BYTE, 1, 2, comm, &request));
    CHECK_INT(calls, 0);
    CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
    while (calls < MESSAGES) CHECK_OK(MPI_Iprobe(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Buffer_detach(&back, &size));
    CHECK(back == buffer);
    for (int i = 0; i < 100; i++) CHECK_OK(MPI_Iprobe(0, 9, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    CHECK_INT(calls, MESSAGES);
    CHECK_INT(others, 0);
    free(buffer);
    CHECK_OK(MPI_Errhandler_free(&handler));
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
