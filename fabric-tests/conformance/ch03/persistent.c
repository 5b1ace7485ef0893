/* Persistent sends and receives of every mode: started again and again, inactive between, freed when inactive.
 *
 * Covers: 3.9, 3.7.3, 3.5
 * Ranks: 1 2 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    static int out[3][50000], in[3][50000];
    MPI_Request requests[6];
    MPI_Status statuses[6], status;
    int flag;
    for (int count = 0; count <= 50000; count = count * 9 + 5) {
        for (int mode = 0; mode < 3; mode++)
            CHECK_OK(MPI_Recv_init(in[mode], count, MPI_INT, before, mode, MPI_COMM_WORLD, &requests[mode]));
        CHECK_OK(MPI_Send_init(out[0], count, MPI_INT, next, 0, MPI_COMM_WORLD, &requests[3]));
        CHECK_OK(MPI_Ssend_init(out[1], count, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[4]));
        CHECK_OK(MPI_Rsend_init(out[2], count, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[5]));
        /* Inactive requests are like null ones. */
        CHECK_OK(MPI_Wait(&requests[0], &status));
        CHECK_EMPTY(status);
        CHECK_OK(MPI_Testall(6, requests, &flag, statuses));
        CHECK(flag);
        for (int i = 0; i < 6; i++) CHECK_EMPTY(statuses[i]);
        for (int round = 0; round < 4; round++) {
            for (int mode = 0; mode < 3; mode++)
                for (int i = 0; i < count; i++) out[mode][i] = round + 10 * mode + 100 * check_rank + i;
            memset(in, 0xFF, sizeof in);
            if (round % 2) {
                CHECK_OK(MPI_Startall(3, requests));
                CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
                CHECK_OK(MPI_Startall(3, requests + 3));
            } else {
                for (int i = 0; i < 3; i++) CHECK_OK(MPI_Start(&requests[i]));
                CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
                for (int i = 3; i < 6; i++) CHECK_OK(MPI_Start(&requests[i]));
            }
            CHECK_OK(MPI_Waitall(6, requests, statuses));
            for (int mode = 0; mode < 3; mode++) {
                CHECK_STATUS(statuses[mode], before, mode, MPI_INT, count);
                for (int i = 0; i < count; i++) CHECK_INT(in[mode][i], round + 10 * mode + 100 * before + i);
            }
            for (int i = 0; i < 6; i++) CHECK(requests[i] != MPI_REQUEST_NULL);
        }
        for (int i = 0; i < 6; i++) {
            CHECK_OK(MPI_Request_free(&requests[i]));
            CHECK(requests[i] == MPI_REQUEST_NULL);
        }
    }
    /* With a plain partner. */
    int value = 7, got = -1;
    CHECK_OK(MPI_Send_init(&value, 1, MPI_INT, check_rank, 9, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Start(&requests[0]));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, check_rank, 9, MPI_COMM_WORLD, &status));
    CHECK_INT(got, 7);
    CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&requests[0]));
    return check_end();
}
