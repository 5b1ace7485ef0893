/* A cancelled receive that has not matched is cancelled: waiting is local, the status says so, the buffer is untouched,
 * and the message goes to the next receive. One that has matched completes.
 *
 * Covers: 3.8.4, 3.7.3
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = check_size == 1 ? 0 : check_rank ^ 1, value = -1, out = 40 + check_rank, flag;
    MPI_Request request, other;
    MPI_Status status;
    for (int how = 0; how < 3; how++) {
        CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, how == 1 ? MPI_ANY_SOURCE : peer, how == 2 ? MPI_ANY_TAG : 5, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Cancel(&request));
        CHECK(request != MPI_REQUEST_NULL);
        if (how == 1) {
            for (flag = 0; !flag;) CHECK_OK(MPI_Test(&request, &flag, &status));
        } else
            CHECK_OK(MPI_Wait(&request, &status));
        CHECK(request == MPI_REQUEST_NULL);
        CHECK_OK(MPI_Test_cancelled(&status, &flag));
        CHECK(flag);
        CHECK_INT(value, -1);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* The cancelled ones take nothing away. */
    CHECK_OK(MPI_Isend(&out, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &other));
    CHECK_OK(MPI_Recv(&value, 1, MPI_INT, peer, 5, MPI_COMM_WORLD, &status));
    CHECK_INT(value, 40 + peer);
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Wait(&other, MPI_STATUS_IGNORE));

    /* Cancelled after it has been satisfied: it completes, and says that it was not cancelled. */
    value = -1;
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, peer, 6, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Ssend(&out, check_size == 1 ? 0 : 1, MPI_INT, check_size == 1 ? MPI_PROC_NULL : peer, 6, MPI_COMM_WORLD));
    if (check_size == 1) CHECK_OK(MPI_Send(&out, 1, MPI_INT, 0, 6, MPI_COMM_WORLD));
    for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status(request, &flag, &status));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_INT(flag, 0);
    CHECK_STATUS(status, peer, 6, MPI_INT, 1);
    CHECK_INT(value, 40 + peer);

    /* Cancelled in the middle of a row of posted receives. */
    int values[5];
    MPI_Request row[5];
    MPI_Status statuses[5];
    for (int i = 0; i < 5; i++) {
        values[i] = -1;
        CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, peer, 7, MPI_COMM_WORLD, &row[i]));
    }
    CHECK_OK(MPI_Cancel(&row[0]));
    CHECK_OK(MPI_Cancel(&row[3]));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Send(&i, 1, MPI_INT, peer, 7, MPI_COMM_WORLD));
    CHECK_OK(MPI_Waitall(5, row, statuses));
    static const int wanted[5] = {-1, 0, 1, -1, 2};
    for (int i = 0; i < 5; i++) {
        CHECK_INT(values[i], wanted[i]);
        CHECK_OK(MPI_Test_cancelled(&statuses[i], &flag));
        CHECK_INT(!!flag, wanted[i] < 0);
    }
    /* Cancelled and freed. */
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, peer, 8, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Request_free(&request));
    return check_end();
}
