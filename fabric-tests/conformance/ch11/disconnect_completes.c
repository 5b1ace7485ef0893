/* MPI_Comm_disconnect waits until all communication on the communicator is complete inside, not until the program has asked for
 * each request; the requests are the program's afterwards as before.
 *
 * Covers: 11.10.4
 * Ranks: 1 2 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    enum { LARGE = 300000 };
    check_start(&argc, &argv);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < 4; round++) {
        MPI_Comm comm;
        MPI_Request requests[4];
        MPI_Status statuses[4];
        int out = 10 * check_rank + round, in = -1;
        unsigned char *large_out = check_alloc(LARGE), *large_in = check_alloc(LARGE);
        fill(large_out, LARGE, (unsigned)out);
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Irecv(&in, 1, MPI_INT, left, 1, comm, &requests[0]));
        CHECK_OK(MPI_Irecv(large_in, LARGE, MPI_BYTE, left, 2, comm, &requests[1]));
        CHECK_OK(MPI_Isend(&out, 1, MPI_INT, right, 1, comm, &requests[2]));
        CHECK_OK(MPI_Isend(large_out, LARGE, MPI_BYTE, right, 2, comm, &requests[3]));
        if (round % 2) {
            /* Some are asked for before, the rest after. */
            CHECK_OK(MPI_Waitall(2, requests, statuses));
        }
        CHECK_OK(MPI_Comm_disconnect(&comm));
        CHECK(comm == MPI_COMM_NULL);
        /* All has arrived, before any of it is asked for. */
        CHECK_INT(in, 10 * left + round);
        CHECK_FILL(large_in, LARGE, 10 * left + round);
        CHECK_OK(MPI_Waitall(4, requests, round % 2 ? MPI_STATUSES_IGNORE : statuses));
        CHECK_STATUS(statuses[0], left, 1, MPI_INT, 1);
        CHECK_STATUS(statuses[1], left, 2, MPI_BYTE, LARGE);
        for (int i = 0; i < 4; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
        free(large_out);
        free(large_in);
    }
    return check_end();
}
