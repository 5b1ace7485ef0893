/* An error in one of several completions: MPI_ERR_IN_STATUS, and each status says success, error or pending.
 *
 * Covers: 3.7.5, 3.2.5, 3.2.6, 9.3.1
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int small[2] = {0, 0}, good = 0, sent[4] = {1, 2, 3, 4};
    for (int how = 0; how < 4; how++) {
        if (check_rank == 0) {
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Send(sent, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
            CHECK_OK(MPI_Send(sent, 4, MPI_INT, 1, 2, MPI_COMM_WORLD));
            /* MPI_Waitall may or may not return before all are complete. */
            if (how >= 2) CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Send(sent, 1, MPI_INT, 1, 3, MPI_COMM_WORLD));
            continue;
        }
        MPI_Request requests[4];
        MPI_Status statuses[4];
        int last = 0, code = MPI_SUCCESS, flag = 0, outcount = 0, indices[4], saw_error = 0, done = 0;
        small[0] = small[1] = good = -1;
        requests[0] = MPI_REQUEST_NULL;
        CHECK_OK(MPI_Irecv(&good, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[1]));
        CHECK_OK(MPI_Irecv(small, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &requests[2]));
        CHECK_OK(MPI_Irecv(&last, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &requests[3]));
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 9, MPI_COMM_WORLD));
        switch (how) {
        case 0:
            for (int i = 0; i < 4; i++) statuses[i].MPI_ERROR = 4242;
            code = MPI_Waitall(4, requests, statuses);
            CHECK_INT(check_class_of(code), MPI_ERR_IN_STATUS);
            CHECK_INT(statuses[0].MPI_ERROR, MPI_SUCCESS);
            CHECK_INT(check_class_of(statuses[2].MPI_ERROR), MPI_ERR_TRUNCATE);
            CHECK(requests[2] == MPI_REQUEST_NULL);
            for (int i = 1; i < 4; i += 2)
                if (statuses[i].MPI_ERROR == MPI_SUCCESS)
                    CHECK(requests[i] == MPI_REQUEST_NULL);
                else {
                    CHECK_INT(check_class_of(statuses[i].MPI_ERROR), MPI_ERR_PENDING);
                    CHECK(requests[i] != MPI_REQUEST_NULL);
                }
            break;
        case 1:
            /* Ignored statuses do not hide the error. */
            code = MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
            CHECK(code != MPI_SUCCESS);
            break;
        case 2:
            while (done < 2) {
                for (int i = 0; i < 4; i++) statuses[i].MPI_ERROR = 4242;
                code = MPI_Waitsome(4, requests, &outcount, indices, statuses);
                CHECK(outcount >= 1);
                for (int k = 0; k < outcount; k++) {
                    if (indices[k] == 2) {
                        CHECK_INT(check_class_of(code), MPI_ERR_IN_STATUS);
                        CHECK_INT(check_class_of(statuses[k].MPI_ERROR), MPI_ERR_TRUNCATE);
                        saw_error = 1;
                    } else if (code != MPI_SUCCESS)
                        CHECK_INT(statuses[k].MPI_ERROR, MPI_SUCCESS);
                }
                done += outcount;
            }
            CHECK(saw_error);
            break;
        default:
            while (done < 2) {
                code = MPI_Testsome(4, requests, &outcount, indices, statuses);
                for (int k = 0; k < outcount; k++)
                    if (indices[k] == 2) {
                        CHECK_INT(check_class_of(code), MPI_ERR_IN_STATUS);
                        CHECK_INT(check_class_of(statuses[k].MPI_ERROR), MPI_ERR_TRUNCATE);
                        saw_error = 1;
                    }
                done += outcount;
            }
            CHECK(saw_error);
        }
        if (how >= 2) CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 10, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        while (!flag) CHECK_OK(MPI_Testall(1, &requests[3], &flag, MPI_STATUSES_IGNORE));
        CHECK_INT(good, 1);
        CHECK_INT(last, 1);
        CHECK_BYTES(&small[1], 0xFF, sizeof small[1]);
    }
    return check_end();
}
