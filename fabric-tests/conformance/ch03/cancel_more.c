/* Cancelling persistent and matched receives: a persistent receive is as good as new afterwards; a matched receive is either
 * received or its message is found again; and cancelled receives among others in the calls that complete several.
 *
 * Covers: 3.8.3, 3.8.4, 3.9, 3.7.5
 * Ranks: 2
 */
#include "check.h"

#define MOST 200000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static char out[MOST], in[MOST];
    static const int lengths[] = {0, 1, 1000, 50000, MOST};
    int peer = 1 - check_rank, flag, cancelled, index, count, indices[4];
    MPI_Request request, requests[4];
    MPI_Status status, statuses[4];
    fill(out, MOST, 5);

    /* A persistent receive, cancelled and started again, ten times. */
    CHECK_OK(MPI_Recv_init(in, MOST, MPI_CHAR, peer, 1, MPI_COMM_WORLD, &request));
    MPI_Request copy = request;
    for (int round = 0; round < 10; round++) {
        memset(in, 0xCC, MOST);
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Cancel(&request));
        CHECK(request == copy);
        if (round % 2) {
            for (flag = 0; !flag;) CHECK_OK(MPI_Test(&request, &flag, &status));
        } else
            CHECK_OK(MPI_Wait(&request, &status));
        CHECK(request == copy);
        CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK(cancelled);
        CHECK_BYTES(in, 0xCC, MOST);
        /* Inactive: an empty status, which is not a cancelled one. */
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_EMPTY(status);
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Sendrecv(&round, 1, MPI_INT, peer, 2, &index, 1, MPI_INT, peer, 2, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Send(out, lengths[round % 5], MPI_CHAR, peer, 1, MPI_COMM_WORLD));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_STATUS(status, peer, 1, MPI_CHAR, lengths[round % 5]);
        CHECK_FILL(in, lengths[round % 5], 5);
    }
    CHECK_OK(MPI_Request_free(&request));

    /* Matched receives. */
    for (int l = 0; l < 5; l++) {
        MPI_Message message;
        MPI_Request send;
        CHECK_OK(MPI_Isend(out, lengths[l], MPI_CHAR, peer, 3, MPI_COMM_WORLD, &send));
        CHECK_OK(MPI_Mprobe(peer, 3, MPI_COMM_WORLD, &message, &status));
        CHECK_STATUS(status, peer, 3, MPI_CHAR, lengths[l]);
        memset(in, 0, MOST);
        CHECK_OK(MPI_Imrecv(in, MOST, MPI_CHAR, &message, &request));
        CHECK(message == MPI_MESSAGE_NULL);
        CHECK_OK(MPI_Cancel(&request));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
        if (cancelled) CHECK_OK(MPI_Recv(in, MOST, MPI_CHAR, peer, 3, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, peer, 3, MPI_CHAR, lengths[l]);
        CHECK_FILL(in, lengths[l], 5);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }

    /* Two cancelled ones beside a message and a null request. */
    for (int call = 0; call < 4; call++) {
        int got[4] = {-1, -1, -1, -1}, done[4] = {0, 0, 0, 0}, over = 0, one = 7;
        for (int i = 0; i < 3; i++) CHECK_OK(MPI_Irecv(&got[i], 1, MPI_INT, peer, 10 + i, MPI_COMM_WORLD, &requests[i]));
        requests[3] = MPI_REQUEST_NULL;
        CHECK_OK(MPI_Cancel(&requests[0]));
        CHECK_OK(MPI_Cancel(&requests[2]));
        CHECK_OK(MPI_Send(&one, 1, MPI_INT, peer, 11, MPI_COMM_WORLD));
        if (call == 0) {
            CHECK_OK(MPI_Waitall(4, requests, statuses));
            CHECK_EMPTY(statuses[3]);
        } else if (call == 1) {
            for (flag = 0; !flag;) CHECK_OK(MPI_Testall(4, requests, &flag, statuses));
        } else
            while (over < 3) {
                if (call == 2) {
                    MPI_Status some[4];
                    CHECK_OK(MPI_Waitsome(4, requests, &count, indices, some));
                    for (int i = 0; i < count; i++) statuses[indices[i]] = some[i];
                } else {
                    CHECK_OK(MPI_Waitany(4, requests, &indices[0], &status));
                    statuses[indices[0]] = status;
                    count = 1;
                }
                for (int i = 0; i < count; i++) CHECK_INT(done[indices[i]]++, 0);
                over += count;
            }
        for (int i = 0; i < 3; i++) {
            CHECK_OK(MPI_Test_cancelled(&statuses[i], &cancelled));
            CHECK_INT(!!cancelled, i != 1);
            CHECK_INT(got[i], i == 1 ? 7 : -1);
            CHECK(requests[i] == MPI_REQUEST_NULL);
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    /* Cancelling comes too late: the message has been received. */
    int one = 8, got = 0;
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, peer, 20, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Send(&one, 1, MPI_INT, peer, 20, MPI_COMM_WORLD));
    for (flag = 0; !flag;) CHECK_OK(MPI_Request_get_status(request, &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK(!cancelled);
    CHECK_INT(got, 8);
    /* Freed after it was cancelled: nothing of it stays. */
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, peer, 21, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Cancel(&request));
    CHECK_OK(MPI_Request_free(&request));
    int other = 0;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Sendrecv(&one, 1, MPI_INT, peer, 21, &other, 1, MPI_INT, peer, 21, MPI_COMM_WORLD, &status));
    CHECK_INT(other, 8);
    return check_end();
}
