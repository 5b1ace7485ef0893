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
    /* Whichever call receives it: the status knows source and tag. */
    for (int i = 0; i < 3; i++)
        for (int how = 0; how < 6; how++) {
            if (check_rank == 0) {
                CHECK_OK(MPI_Send(numbers, counts[i], MPI_INT, 1, 18 + how, MPI_COMM_WORLD));
                continue;
            }
            MPI_Status status;
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Message message;
            int code = MPI_SUCCESS, index;
            if (how < 3) CHECK_OK(MPI_Irecv(numbers, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &request));
            if (how == 3 || how == 4) CHECK_OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
            switch (how) {
            case 0: code = MPI_Wait(&request, &status); break;
            case 1: code = MPI_Waitall(1, &request, &status); break;
            case 2: code = MPI_Waitany(1, &request, &index, &status); break;
            case 3: code = MPI_Mrecv(numbers, 3, MPI_INT, &message, &status); break;
            case 4:
                CHECK_OK(MPI_Imrecv(numbers, 3, MPI_INT, &message, &request));
                code = MPI_Wait(&request, &status);
                break;
            default:
                code = MPI_Sendrecv(NULL, 0, MPI_INT, MPI_PROC_NULL, 0, numbers, 3, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                                    &status);
            }
            CHECK_INT(check_class_of(code), how == 1 ? MPI_ERR_IN_STATUS : MPI_ERR_TRUNCATE);
            CHECK_INT(status.MPI_SOURCE, 0);
            CHECK_INT(status.MPI_TAG, 18 + how);
        }
    return check_end();
}
