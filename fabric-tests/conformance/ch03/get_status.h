/* MPI_Request_get_status and its any, some and all forms: they tell, they make progress, and they free nothing. Included after check.h by
 * the programs of one thread and of several.
 */
#define N 4

static void get_status_forms(MPI_Comm comm)
{
    int peer = 1 - check_rank, values[N], out[N] = {10, 11, 12, 13}, flag, index, outcount, indices[N];
    MPI_Request requests[N], sends[N];
    MPI_Status statuses[N], status;
    for (int length = 0; length < 5; length++) {
        requests[0] = MPI_REQUEST_NULL;
        for (int i = 1; i < N; i++) {
            values[i] = -1;
            CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, peer, i, comm, &requests[i]));
        }
        /* Nothing has come: each form says so. */
        CHECK_OK(MPI_Request_get_status(requests[1], &flag, &status));
        CHECK_INT(flag, 0);
        CHECK_OK(MPI_Request_get_status_any(N, requests, &index, &flag, &status));
        CHECK_INT(flag, 0);
        CHECK_INT(index, MPI_UNDEFINED);
        CHECK_OK(MPI_Request_get_status_some(N, requests, &outcount, indices, statuses));
        CHECK_INT(outcount, 0);
        CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
        CHECK_INT(flag, 0);
        CHECK_OK(MPI_Barrier(comm));
        CHECK_OK(MPI_Isend(&out[2], 1, MPI_INT, peer, 2, comm, &sends[2]));
        switch (length) {
        case 0:
            for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status_any(N, requests, &index, &flag, &status));
            CHECK_INT(index, 2);
            CHECK_STATUS(status, peer, 2, MPI_INT, 1);
            break;
        case 1:
            for (outcount = 0; !outcount;)
                CHECK_OK(MPI_Request_get_status_some(N, requests, &outcount, indices, statuses));
            CHECK_INT(outcount, 1);
            CHECK_INT(indices[0], 2);
            CHECK_STATUS(statuses[0], peer, 2, MPI_INT, 1);
            break;
        default:
            for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status(requests[2], &flag, &status));
            CHECK_STATUS(status, peer, 2, MPI_INT, 1);
        }
        CHECK_INT(values[2], 12);
        CHECK(requests[2] != MPI_REQUEST_NULL);
        CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
        CHECK_INT(flag, 0);
        CHECK_OK(MPI_Barrier(comm));
        for (int i = 1; i < N; i += 2) CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, peer, i, comm, &sends[i]));
        for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
        CHECK_EMPTY(statuses[0]);
        for (int i = 1; i < N; i++) {
            CHECK_STATUS(statuses[i], peer, i, MPI_INT, 1);
            CHECK(requests[i] != MPI_REQUEST_NULL);
            CHECK_INT(values[i], 10 + i);
        }
        CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, MPI_STATUSES_IGNORE));
        CHECK_OK(MPI_Waitall(N, requests, statuses));
        for (int i = 1; i < N; i++) CHECK_STATUS(statuses[i], peer, i, MPI_INT, 1);
        CHECK_OK(MPI_Waitall(N - 1, sends + 1, MPI_STATUSES_IGNORE));
    }
    /* Nothing active. */
    CHECK_OK(MPI_Request_get_status_any(N, requests, &index, &flag, &status));
    CHECK(flag);
    CHECK_INT(index, MPI_UNDEFINED);
    CHECK_EMPTY(status);
    CHECK_OK(MPI_Request_get_status_some(N, requests, &outcount, indices, statuses));
    CHECK_INT(outcount, MPI_UNDEFINED);
    CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
    CHECK(flag);
}
