/* Communicators and datatypes freed while sends, receives, persistent requests, matched messages and buffered sends use
 * them: everything under way completes, and persistent requests can be started and freed. A persistent request that is
 * never freed keeps nobody from finalizing.
 *
 * Covers: 2.5.1, 3.7.3, 3.8.2, 3.9, 7.4.3
 * Ranks: 1 2
 * Leaves: yes
 */
#include "check.h"

#define N 5000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = check_size - 1 - check_rank, size = 100000, values[2 * N], got[2 * N], index;
    void *space = check_alloc((size_t)size);
    for (int i = 0; i < 2 * N; i++) values[i] = i + check_rank;
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int round = 0; round < 20; round++) {
        MPI_Comm comm;
        MPI_Datatype every_other;
        MPI_Request requests[4], persistent[2];
        MPI_Message message;
        MPI_Status status, statuses[4];
        int in[4][N];
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Type_vector(N, 1, 2, MPI_INT, &every_other));
        CHECK_OK(MPI_Type_commit(&every_other));
        memset(got, 0xFF, sizeof got);
        CHECK_OK(MPI_Irecv(got, 1, every_other, peer, 1, comm, &requests[0]));
        CHECK_OK(MPI_Irecv(in[1], N, MPI_INT, peer, 2, comm, &requests[1]));
        CHECK_OK(MPI_Send_init(values, 1, every_other, peer, 3, comm, &persistent[0]));
        CHECK_OK(MPI_Recv_init(in[2], N, MPI_INT, peer, 3, comm, &persistent[1]));
        CHECK_OK(MPI_Isend(values, 1, every_other, peer, 4, comm, &requests[3]));
        CHECK_OK(MPI_Mprobe(peer, 4, comm, &message, &status));
        CHECK_OK(MPI_Bsend(values, 1, every_other, peer, 2, comm));
        CHECK_OK(MPI_Startall(2, persistent));
        CHECK_OK(MPI_Isend(values, N, MPI_INT, peer, 1, comm, &requests[2]));
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Type_free(&every_other));
        CHECK(comm == MPI_COMM_NULL && every_other == MPI_DATATYPE_NULL);
        /* New ones, which may come to lie where the old were. */
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Type_contiguous(3, MPI_CHAR, &every_other));
        CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &index, &status));
        CHECK_INT(index, 0);
        CHECK_OK(MPI_Mrecv(in[3], N, MPI_INT, &message, &status));
        CHECK_STATUS(status, peer, 4, MPI_INT, N);
        CHECK_OK(MPI_Waitall(2, persistent, statuses));
        CHECK_STATUS(statuses[1], peer, 3, MPI_INT, N);
        CHECK_OK(MPI_Waitall(4, requests, statuses));
        CHECK_STATUS(statuses[0], peer, 1, MPI_INT, N);
        CHECK_STATUS(statuses[1], peer, 2, MPI_INT, N);
        for (int i = 0; i < N; i++) {
            CHECK_INT(got[2 * i], i + peer);
            CHECK_INT(got[2 * i + 1], -1);
            for (int k = 1; k < 4; k++)
                if (in[k][i] != 2 * i + peer) CHECK_FAIL("round %d, message %d, element %d: %d", round, k, i, in[k][i]);
        }
        /* Still good for another turn. */
        memset(in[2], 0, sizeof in[2]);
        CHECK_OK(MPI_Startall(2, persistent));
        CHECK_OK(MPI_Waitall(2, persistent, statuses));
        CHECK_INT(in[2][N - 1], 2 * (N - 1) + peer);
        CHECK_OK(MPI_Request_free(&persistent[0]));
        if (round % 2) CHECK_OK(MPI_Request_free(&persistent[1]));
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK_OK(MPI_Type_free(&every_other));
    }
    CHECK_OK(MPI_Buffer_detach(&space, &size));
    free(space);
    MPI_Request left;
    CHECK_OK(MPI_Recv_init(got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &left));
    CHECK_OK(MPI_Send_init(got, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &left));
    return check_end();
}
