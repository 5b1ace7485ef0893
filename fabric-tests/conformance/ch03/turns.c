/* Two processes that send each other messages of 10 to 80 KB in turns, each after it has received the other's: whatever way they take, and
 * whatever call receives them, with gaps on either side, from any source, probed first, early or late, they come whole and in order, and a
 * buffer that is written right after its send has no effect on what was sent.
 *
 * Covers: 3.2.4, 3.4, 3.5, 3.7.2, 3.8.1, 3.8.2
 * Ranks: 2
 */
#include "check.h"

enum { TURNS = 600, BIG = 80000, WAYS = 9, TAG = 6 };

static int length_of(int turn)
{
    static const int lengths[] = {16384, 32768, 65536, 12288, 20000, 40000, 65532, BIG, 10000};
    /* Long stretches of one length, and then all of them mixed. */
    return lengths[turn < TURNS * 3 / 4 ? turn / 50 % 9 : turn % 9];
}

static void receive(char *buffer, int length, int way, MPI_Datatype every_other)
{
    MPI_Status status;
    MPI_Request request;
    MPI_Message message;
    memset(buffer, 0, 2 * BIG);
    switch (way) {
    case 0:
        CHECK_OK(MPI_Recv(buffer, BIG, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD, &status));
        break;
    case 1:
        CHECK_OK(MPI_Recv(buffer, BIG, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        break;
    case 2:
        CHECK_OK(MPI_Probe(!check_rank, TAG, MPI_COMM_WORLD, &status));
        CHECK_STATUS(status, !check_rank, TAG, MPI_CHAR, length);
        CHECK_OK(MPI_Recv(buffer, length, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD, &status));
        break;
    case 3:
        CHECK_OK(MPI_Mprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &message, &status));
        CHECK_STATUS(status, !check_rank, TAG, MPI_CHAR, length);
        CHECK_OK(MPI_Mrecv(buffer, length, MPI_CHAR, &message, &status));
        break;
    case 4:
        CHECK_OK(MPI_Irecv(buffer, BIG, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, &status));
        break;
    case 5: {
        /* Late, and looked for again and again. */
        int found = 0;
        while (!found) CHECK_OK(MPI_Iprobe(!check_rank, TAG, MPI_COMM_WORLD, &found, &status));
        for (int i = 0; i < 20; i++) CHECK_OK(MPI_Iprobe(!check_rank, TAG + 1, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE));
        CHECK_INT(found, 0);
        CHECK_OK(MPI_Recv(buffer, BIG, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD, &status));
        break;
    }
    case 6:
        /* Each block of 4 bytes eight bytes behind the last. */
        CHECK_OK(MPI_Recv(buffer, BIG / 4, every_other, !check_rank, TAG, MPI_COMM_WORLD, &status));
        for (int i = 1; i < length / 4; i++) memmove(buffer + 4 * i, buffer + 8 * i, 4);
        break;
    case 7:
        CHECK_OK(MPI_Recv_init(buffer, BIG, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_OK(MPI_Request_free(&request));
        break;
    default: {
        int done = 0;
        CHECK_OK(MPI_Irecv(buffer, length, MPI_CHAR, MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &request));
        while (!done) CHECK_OK(MPI_Test(&request, &done, &status));
    }
    }
    CHECK_STATUS(status, !check_rank, TAG, MPI_CHAR, length);
}

static void send(char *buffer, int length, int way, MPI_Datatype every_other)
{
    MPI_Request request;
    switch (way) {
    case 0:
    case 1:
    case 2:
    case 3:
        CHECK_OK(MPI_Send(buffer, length, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD));
        break;
    case 4:
        CHECK_OK(MPI_Isend(buffer, length, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 5:
        CHECK_OK(MPI_Ssend(buffer, length, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD));
        break;
    case 6:
        for (int i = length / 4 - 1; i > 0; i--) memmove(buffer + 8 * i, buffer + 4 * i, 4);
        CHECK_OK(MPI_Send(buffer, length / 4, every_other, !check_rank, TAG, MPI_COMM_WORLD));
        break;
    case 7:
        CHECK_OK(MPI_Send_init(buffer, length, MPI_CHAR, !check_rank, TAG, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&request));
        break;
    default:
        CHECK_OK(MPI_Sendrecv(buffer, length, MPI_CHAR, !check_rank, TAG, NULL, 0, MPI_CHAR, MPI_PROC_NULL, 0, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE));
    }
    memset(buffer, 0, (size_t)2 * BIG);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype resized, every_other;
    CHECK_OK(MPI_Type_contiguous(4, MPI_CHAR, &resized));
    CHECK_OK(MPI_Type_create_resized(resized, 0, 8, &every_other));
    CHECK_OK(MPI_Type_commit(&every_other));
    char *buffer = check_alloc(2 * BIG);
    for (int turn = 0; turn < TURNS; turn++) {
        int length = length_of(turn);
        /* Nine of ten by the usual calls, so that what the library finds out about them lasts. */
        int sending = turn % 10 ? 0 : turn / 10 % WAYS, receiving = turn % 7 ? 0 : turn / 7 % WAYS;
        if (turn % 2 == check_rank) {
            fill(buffer, (size_t)length, (unsigned)turn);
            send(buffer, length, sending, every_other);
        } else {
            receive(buffer, length, receiving, every_other);
            CHECK_FILL(buffer, length, turn);
        }
    }
    CHECK_OK(MPI_Type_free(&resized));
    CHECK_OK(MPI_Type_free(&every_other));
    free(buffer);
    return check_end();
}
