/* Inactive persistent requests do not keep MPI_Comm_disconnect, MPI_Comm_free or MPI_Finalize from their end, of all modes, used
 * before or never started.
 *
 * Covers: 3.9, 11.10.4
 * Ranks: 1 2 3
 * Leaves: yes
 */
#include "check.h"

int main(int argc, char **argv)
{
    static char buffer[4 * (100 + MPI_BSEND_OVERHEAD)];
    void *detached;
    int size;
    check_start(&argc, &argv);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    CHECK_OK(MPI_Buffer_attach(buffer, sizeof buffer));
    for (int round = 0; round < 4; round++) {
        MPI_Comm comm;
        MPI_Request requests[5];
        int in = -1, out = check_rank, never[3];
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Recv_init(&in, 1, MPI_INT, left, round, comm, &requests[0]));
        switch (round) {
        case 0: CHECK_OK(MPI_Send_init(&out, 1, MPI_INT, right, round, comm, &requests[1])); break;
        case 1: CHECK_OK(MPI_Ssend_init(&out, 1, MPI_INT, right, round, comm, &requests[1])); break;
        default: CHECK_OK(MPI_Bsend_init(&out, 1, MPI_INT, right, round, comm, &requests[1])); break;
        }
        CHECK_OK(MPI_Recv_init(&never[0], 1, MPI_INT, MPI_ANY_SOURCE, 99, comm, &requests[2]));
        CHECK_OK(MPI_Send_init(&never[1], 1, MPI_INT, right, 99, comm, &requests[3]));
        CHECK_OK(MPI_Precv_init(&never[2], 1, 1, MPI_INT, left, 98, comm, MPI_INFO_NULL, &requests[4]));
        for (int start = 0; start < 3; start++) {
            CHECK_OK(MPI_Startall(2, requests));
            CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
            CHECK_INT(in, left);
        }
        if (round % 2) CHECK_OK(MPI_Comm_free(&comm));
        else CHECK_OK(MPI_Comm_disconnect(&comm));
        CHECK(comm == MPI_COMM_NULL);
        /* The handles stay what they were, and name nothing that may be used. */
        for (int i = 0; i < 5; i++) CHECK(requests[i] != MPI_REQUEST_NULL);
    }
    CHECK_OK(MPI_Buffer_detach(&detached, &size));
    return check_end();
}
