/* Partitioned requests beside others in the completing calls, and in MPI_Request_get_status.
 *
 * Covers: 3.2.5, 4.2.1, 4.2.2, 3.7.5, 3.7.6
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = 1 - check_rank, out[3] = {1 + check_rank, 2 + check_rank, 3 + check_rank}, in[3];
    MPI_Request requests[5];
    MPI_Status statuses[5], status;
    int flag, indices[5], outcount, index;
    CHECK_OK(MPI_Psend_init(out, 3, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    CHECK_OK(MPI_Precv_init(in, 3, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < 6; round++) {
        int plain_out = 50 + check_rank, plain_in = -1, done = 0;
        memset(in, 0xFF, sizeof in);
        CHECK_OK(MPI_Startall(2, requests));
        CHECK_OK(MPI_Isend(&plain_out, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[2]));
        CHECK_OK(MPI_Irecv(&plain_in, 1, MPI_INT, peer, 1, MPI_COMM_WORLD, &requests[3]));
        requests[4] = MPI_REQUEST_NULL;
        CHECK_OK(MPI_Testall(5, requests, &flag, statuses));
        CHECK(!flag);
        CHECK_OK(MPI_Request_get_status(requests[0], &flag, &status));
        CHECK(!flag);
        CHECK_OK(MPI_Pready_range(0, 2, requests[0]));
        switch (round) {
        case 0:
            CHECK_OK(MPI_Waitall(5, requests, statuses));
            CHECK_STATUS(statuses[1], peer, 1, MPI_INT, 3);
            CHECK_EMPTY(statuses[4]);
            break;
        case 1:
            do CHECK_OK(MPI_Testall(5, requests, &flag, statuses));
            while (!flag);
            break;
        case 2:
            while (done < 4) {
                CHECK_OK(MPI_Waitsome(5, requests, &outcount, indices, statuses));
                done += outcount;
            }
            CHECK_OK(MPI_Waitsome(5, requests, &outcount, indices, statuses));
            CHECK_INT(outcount, MPI_UNDEFINED);
            break;
        case 3:
            while (done < 4) {
                CHECK_OK(MPI_Testsome(5, requests, &outcount, indices, statuses));
                done += outcount;
            }
            break;
        case 4:
            for (; done < 4; done++) CHECK_OK(MPI_Waitany(5, requests, &index, &status));
            CHECK_OK(MPI_Waitany(5, requests, &index, &status));
            CHECK_INT(index, MPI_UNDEFINED);
            break;
        default:
            /* A send that is done is active still: no empty status, whose error field is defined. */
            do {
                status.MPI_ERROR = 123456;
                CHECK_OK(MPI_Request_get_status(requests[0], &flag, &status));
            } while (!flag);
            CHECK_INT(status.MPI_ERROR, 123456);
            do CHECK_OK(MPI_Request_get_status(requests[1], &flag, &status));
            while (!flag);
            CHECK_STATUS(status, peer, 1, MPI_INT, 3);
            for (int i = 0; i < 5; i++) CHECK_OK(MPI_Wait(&requests[i], &status));
        }
        CHECK_INT(plain_in, 50 + peer);
        for (int i = 0; i < 3; i++) CHECK_INT(in[i], i + 1 + peer);
        CHECK(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL && requests[2] == MPI_REQUEST_NULL);
    }
    CHECK_OK(MPI_Request_free(&requests[0]));
    CHECK_OK(MPI_Request_free(&requests[1]));
    return check_end();
}
