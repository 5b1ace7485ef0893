/* What may not be done to a request is refused with a reason, and the request goes on as if nothing had been asked: starting what is active
 * or not persistent, cancelling a sendrecv, a flush, or what is inactive, freeing an active flush; in MPI_COMM_WORLD and, with
 * MPI_THREAD_MULTIPLE, in a communicator of its own.
 *
 * Covers: 3.6, 3.7.2, 3.7.3, 3.8.4, 3.9
 * Ranks: 1 2
 */
#include "check.h"
#include "told.h"

static void refuse(MPI_Comm comm)
{
    static char space[100000 + MPI_BSEND_OVERHEAD], big[100000];
    int peer = check_size - 1 - check_rank, value = check_rank, got = -1, flag = 0, size;
    void *address;
    MPI_Request request, receive, copy;
    MPI_Status status;

    CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, peer, 1, comm, &receive));
    copy = receive;
    TOLD(MPI_Cancel(&copy), MPI_ERR_REQUEST, "MPI_Cancel", "inactive");
    CHECK_OK(MPI_Start(&receive));
    TOLD(MPI_Start(&receive), MPI_ERR_REQUEST, "MPI_Start", "active");
    TOLD(MPI_Startall(1, &receive), MPI_ERR_REQUEST, "MPI_Startall", "active");
    CHECK_OK(MPI_Isend(&value, 1, MPI_INT, peer, 1, comm, &request));
    TOLD(MPI_Start(&request), MPI_ERR_REQUEST, "MPI_Start", "not persistent");
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&receive, &status));
    CHECK_STATUS(status, peer, 1, MPI_INT, 1);
    CHECK_INT(got, peer);
    CHECK_OK(MPI_Request_free(&receive));

    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, peer, 2, comm, &receive));
    TOLD(MPI_Start(&receive), MPI_ERR_REQUEST, "MPI_Start", "not persistent");
    CHECK_OK(MPI_Isendrecv(&value, 1, MPI_INT, peer, 2, big, 1, MPI_INT, peer, 3, comm, &request));
    copy = request;
    TOLD(MPI_Cancel(&copy), MPI_ERR_REQUEST, "MPI_Cancel", "sendrecv");
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, peer, 3, comm));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_STATUS(status, peer, 3, MPI_INT, 1);
    CHECK_OK(MPI_Wait(&receive, &status));
    CHECK_STATUS(status, peer, 2, MPI_INT, 1);

    CHECK_OK(MPI_Comm_attach_buffer(comm, space, sizeof space));
    CHECK_OK(MPI_Bsend(big, sizeof big, MPI_CHAR, peer, 4, comm));
    CHECK_OK(MPI_Comm_iflush_buffer(comm, &request));
    CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    if (!flag) {
        copy = request;
        TOLD(MPI_Cancel(&copy), MPI_ERR_REQUEST, "MPI_Cancel", "flush");
        TOLD(MPI_Request_free(&copy), MPI_ERR_REQUEST, "MPI_Request_free", "flush");
    }
    CHECK_OK(MPI_Recv(big, sizeof big, MPI_CHAR, peer, 4, comm, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_detach_buffer(comm, &address, &size));
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Comm comm;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    refuse(MPI_COMM_WORLD);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    refuse(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
