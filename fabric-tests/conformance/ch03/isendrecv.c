/* MPI_Isendrecv and MPI_Isendrecv_replace: one request for both halves, the status of the receive.
 * (MPICH 5.0 does not fill the status.)
 *
 * Covers: 3.7.2, 3.2.7
 * Ranks: 1 2 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    for (int length = 0; length <= 2000000; length = length * 7 + 1) {
        unsigned char *out = check_alloc((size_t)length);
        struct guarded in = guarded_new((size_t)length), both = guarded_new((size_t)length);
        MPI_Request requests[2];
        MPI_Status statuses[2];
        fill(out, (size_t)length, (unsigned)check_rank);
        fill(both.bytes, (size_t)length, (unsigned)check_rank + 40);
        CHECK_OK(MPI_Isendrecv(out, length, MPI_BYTE, next, 1, in.bytes, length, MPI_BYTE, before, 1, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Isendrecv_replace(both.bytes, length, MPI_BYTE, before, 2, next, 2, MPI_COMM_WORLD, &requests[1]));
        CHECK_OK(MPI_Waitall(2, requests, statuses));
        CHECK_STATUS(statuses[0], before, 1, MPI_BYTE, length);
        CHECK_STATUS(statuses[1], next, 2, MPI_BYTE, length);
        CHECK_FILL(in.bytes, length, before);
        CHECK_FILL(both.bytes, length, next + 40);
        CHECK_GUARDS(in);
        CHECK_GUARDS(both);
        free(out);
        free(in.whole);
        free(both.whole);
    }
    /* Completed by polling; one end is MPI_PROC_NULL. */
    int value = check_rank, got = -1, flag = 0;
    MPI_Request request;
    MPI_Status status;
    CHECK_OK(MPI_Isendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 1, &got, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &request));
    while (!flag) CHECK_OK(MPI_Test(&request, &flag, &status));
    CHECK_STATUS(status, MPI_PROC_NULL, MPI_ANY_TAG, MPI_INT, 0);
    CHECK_INT(got, -1);
    return check_end();
}
