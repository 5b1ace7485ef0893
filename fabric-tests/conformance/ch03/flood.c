/* A fast sender and a slow receiver: a standard send that finds no buffer waits, it never fails, and nothing is lost.
 *
 * Covers: 3.5
 * Ranks: 2 3
 * Timeout: 120
 */
#include "check.h"

#define N 200000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int last = check_size - 1, message[16] = {0};
    if (check_rank != last) {
        for (int i = 0; i < N; i++) {
            message[0] = i;
            CHECK_OK(MPI_Send(message, 1 + i % 16, MPI_INT, last, 0, MPI_COMM_WORLD));
        }
    } else {
        int next[3] = {0};
        /* Everybody else has a head start. */
        usleep(300000);
        for (int k = 0; k < N * last; k++) {
            MPI_Status status;
            CHECK_OK(MPI_Recv(message, 16, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status));
            CHECK_INT(message[0], next[status.MPI_SOURCE]);
            next[status.MPI_SOURCE]++;
            CHECK_STATUS(status, status.MPI_SOURCE, 0, MPI_INT, 1 + message[0] % 16);
        }
    }
    return check_end();
}
