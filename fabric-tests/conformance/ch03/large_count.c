/* The MPI_Count forms of the point-to-point calls do what the int forms do, and the two match each other.
 *
 * Covers: 3.2.1, 3.2.4, 2.5.8
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = 1 - check_rank, out[1000], in[1000], small;
    MPI_Count n = 1000, count = -1;
    MPI_Request requests[8];
    MPI_Status statuses[8], status;
    MPI_Message message;
    for (int i = 0; i < 1000; i++) out[i] = check_rank * 100000 + i;
    for (int how = 0; how < 6; how++) {
        memset(in, 0xFF, sizeof in);
        CHECK_OK(MPI_Irecv_c(in, n, MPI_INT, peer, how, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        switch (how) {
        case 0: CHECK_OK(MPI_Send_c(out, n, MPI_INT, peer, how, MPI_COMM_WORLD)); break;
        case 1: CHECK_OK(MPI_Ssend_c(out, n, MPI_INT, peer, how, MPI_COMM_WORLD)); break;
        case 2: CHECK_OK(MPI_Rsend_c(out, n, MPI_INT, peer, how, MPI_COMM_WORLD)); break;
        case 3:
            CHECK_OK(MPI_Isend_c(out, n, MPI_INT, peer, how, MPI_COMM_WORLD, &requests[1]));
            CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
            break;
        case 4:
            CHECK_OK(MPI_Issend_c(out, n, MPI_INT, peer, how, MPI_COMM_WORLD, &requests[1]));
            CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
            break;
        default:
            CHECK_OK(MPI_Irsend_c(out, n, MPI_INT, peer, how, MPI_COMM_WORLD, &requests[1]));
            CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        }
        CHECK_OK(MPI_Wait(&requests[0], &statuses[0]));
        CHECK_OK(MPI_Get_count_c(&statuses[0], MPI_INT, &count));
        CHECK_INT(count, 1000);
        for (int i = 0; i < 1000; i++) CHECK_INT(in[i], peer * 100000 + i);
    }
    /* Large form to int form and back. */
    CHECK_OK(MPI_Isend_c(out, n, MPI_INT, peer, 10, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Recv(in, 1000, MPI_INT, peer, 10, MPI_COMM_WORLD, &status));
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Isend(out, 10, MPI_INT, peer, 11, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Recv_c(in, n, MPI_INT, peer, 11, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, peer, 11, MPI_INT, 10);
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    /* Sendrecv, replace, matched receives. */
    CHECK_OK(MPI_Sendrecv_c(out, n, MPI_INT, peer, 12, in, n, MPI_INT, peer, 12, MPI_COMM_WORLD, &status));
    CHECK_STATUS(status, peer, 12, MPI_INT, 1000);
    CHECK_OK(MPI_Sendrecv_replace_c(in, n, MPI_INT, peer, 13, peer, 13, MPI_COMM_WORLD, &status));
    for (int i = 0; i < 1000; i++) CHECK_INT(in[i], out[i]);
    CHECK_OK(MPI_Isend_c(out, n, MPI_INT, peer, 14, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Mprobe(peer, 14, MPI_COMM_WORLD, &message, &status));
    CHECK_OK(MPI_Mrecv_c(in, n, MPI_INT, &message, &status));
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Isend_c(out, n, MPI_INT, peer, 15, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Mprobe(peer, 15, MPI_COMM_WORLD, &message, &status));
    CHECK_OK(MPI_Imrecv_c(in, n, MPI_INT, &message, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, statuses));
    CHECK_OK(MPI_Get_count(&statuses[1], MPI_INT, &small));
    CHECK_INT(small, 1000);
    return check_end();
}
