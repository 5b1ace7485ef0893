/* MPI_PROC_NULL wherever a rank is asked for: the call returns at once, buffers stay as they are, statuses say
 * MPI_PROC_NULL, MPI_ANY_TAG and 0 bytes.
 *
 * Covers: 3.10, 3.8.2, 3.2.7
 * Ranks: 1 2
 */
#include "check.h"

static void check_nobody(MPI_Status *status)
{
    CHECK_STATUS(*status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int out[4] = {1, 2, 3, 4}, in[4] = {-1, -2, -3, -4}, flag = 0;
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;

    CHECK_OK(MPI_Send(out, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Ssend(out, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Rsend(out, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Recv(in, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    check_nobody(&status);
    CHECK_OK(MPI_Recv(in, 4, MPI_INT, MPI_PROC_NULL, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    check_nobody(&status);
    CHECK_OK(MPI_Recv(in, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));

    CHECK_OK(MPI_Isend(out, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Issend(out, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Irsend(out, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Irecv(in, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Wait(&request, &status));
    check_nobody(&status);
    CHECK_OK(MPI_Irecv(in, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Test(&request, &flag, &status));
    CHECK(flag);
    check_nobody(&status);

    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Probe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    check_nobody(&status);
    flag = 0;
    CHECK_OK(MPI_Iprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &status));
    CHECK(flag);
    check_nobody(&status);
    CHECK_OK(MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    check_nobody(&status);
    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Mrecv(in, 4, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
    check_nobody(&status);
    flag = 0;
    CHECK_OK(MPI_Improbe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &flag, &message, &status));
    CHECK(flag);
    CHECK(message == MPI_MESSAGE_NO_PROC);
    check_nobody(&status);
    CHECK_OK(MPI_Imrecv(in, 4, MPI_INT, &message, &request));
    CHECK(message == MPI_MESSAGE_NULL);
    CHECK_OK(MPI_Wait(&request, &status));
    check_nobody(&status);

    memset(&status, 0x5A, sizeof status);
    CHECK_OK(MPI_Sendrecv(out, 4, MPI_INT, MPI_PROC_NULL, 0, in, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    check_nobody(&status);
    CHECK_OK(MPI_Sendrecv_replace(in, 4, MPI_INT, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &status));
    check_nobody(&status);
    for (int i = 0; i < 4; i++) CHECK_INT(in[i], -1 - i);

    /* One end only. */
    int self = check_rank;
    CHECK_OK(MPI_Isend(out, 4, MPI_INT, self, 1, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Sendrecv(out, 4, MPI_INT, MPI_PROC_NULL, 1, in, 4, MPI_INT, self, 1, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, self, 1, MPI_INT, 4);
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++) {
        CHECK_INT(in[i], out[i]);
        in[i] = -1 - i;
    }
    CHECK_OK(MPI_Irecv(in, 4, MPI_INT, self, 2, MPI_COMM_WORLD, &request));
    int untouched[4] = {9, 9, 9, 9};
    CHECK_OK(MPI_Sendrecv(out, 4, MPI_INT, self, 2, untouched, 4, MPI_INT, MPI_PROC_NULL, 2, MPI_COMM_WORLD, &status));
    check_nobody(&status);
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_STATUS(status, self, 2, MPI_INT, 4);
    for (int i = 0; i < 4; i++) CHECK_INT(untouched[i], 9);
    return check_end();
}
