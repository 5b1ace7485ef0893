/* A truncated receive tells how long the message was, how long the buffer, from whom and with which tag; its status has
 * source and tag.
 *
 * Covers: 3.2.4
 * Ranks: 2
 */
#include "check.h"
#include "told.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int numbers[60000];
    static const int counts[] = {10, 3000, 60000};
    for (int i = 0; i < 3; i++) {
        if (check_rank == 0)
            CHECK_OK(MPI_Send(numbers, counts[i], MPI_INT, 1, 17, MPI_COMM_WORLD));
        else {
            MPI_Status status;
            char sent[32];
            snprintf(sent, sizeof sent, "%d", counts[i] * 4);
            TOLD(MPI_Recv(numbers, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE,
                 "MPI_Recv", sent, "12", "rank 0", "17");
            CHECK_INT(status.MPI_SOURCE, 0);
            CHECK_INT(status.MPI_TAG, 17);
        }
    }
    return check_end();
}
