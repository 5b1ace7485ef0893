/* Whatever fits the model allocator of section 3.6.1 (MPI_Pack_size plus MPI_BSEND_OVERHEAD for each message, one after the
 * other) fits the attached buffer, though nobody receives; after a flush or detach all of it is free again. Detach and
 * flush return once the receives are started, although the receiver does nothing else.
 *
 * Covers: 3.4, 3.5, 3.6, 3.6.1, 3.7.3
 * Ranks: 2 3
 */
#include "check.h"

#define MOST 64
#define ROUNDS 30

static uint64_t state = 0x1234567;

static uint64_t below(uint64_t bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % bound;
}

/* Sizes on both sides of every protocol border anybody has. */
static int some_size(void)
{
    static const int borders[] = {0, 1, 64, 1024, 8192, 65536, 200000};
    int size = borders[below(7)] + (int)below(5) - 2;
    return size < 0 ? 0 : size;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int size = 300000 + MOST * MPI_BSEND_OVERHEAD;
    char *space = check_alloc((size_t)size), *data = check_alloc(300000), *address;
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Status status;
        MPI_Request request = MPI_REQUEST_NULL;
        int used = 0, sent = 0, got = 0;
        if (round % 2)
            CHECK_OK(MPI_Buffer_attach(space, size));
        else
            CHECK_OK(MPI_Comm_attach_buffer(comm, space, size));
        for (; sent < MOST; sent++) {
            int length = some_size(), packed;
            CHECK_OK(MPI_Pack_size(length, MPI_CHAR, comm, &packed));
            if (used + packed + MPI_BSEND_OVERHEAD > size) break;
            used += packed + MPI_BSEND_OVERHEAD;
            fill(data, (size_t)length, (unsigned)(check_rank * 1000 + sent));
            CHECK_OK(MPI_Bsend(data, length, MPI_CHAR, next, sent, comm));
        }
        /* How many, by a way that needs no buffer. */
        CHECK_OK(MPI_Sendrecv(&sent, 1, MPI_INT, next, MOST, &got, 1, MPI_INT, before, MOST, comm, &status));
        /* Backwards: order is nothing to the buffer. */
        for (int tag = got - 1; tag >= 0; tag--) {
            int length;
            CHECK_OK(MPI_Probe(before, tag, comm, &status));
            CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &length));
            CHECK_OK(MPI_Recv(data, length, MPI_CHAR, before, tag, comm, &status));
            CHECK_FILL(data, length, before * 1000 + tag);
        }
        if (round % 3 == 0) {
            CHECK_OK(round % 2 ? MPI_Buffer_flush() : MPI_Comm_flush_buffer(comm));
            /* All of it is free: one message takes the whole. */
            int length = 290000;
            fill(data, (size_t)length, 7);
            CHECK_OK(MPI_Bsend(data, length, MPI_CHAR, next, 0, comm));
            CHECK_OK(round % 2 ? MPI_Buffer_iflush(&request) : MPI_Comm_iflush_buffer(comm, &request));
            CHECK_OK(MPI_Recv(data, length, MPI_CHAR, before, 0, comm, &status));
            CHECK_FILL(data, length, 7);
            CHECK_OK(MPI_Wait(&request, &status));
        }
        if (round % 2)
            CHECK_OK(MPI_Buffer_detach(&address, &size));
        else
            CHECK_OK(MPI_Comm_detach_buffer(comm, &address, &size));
        CHECK(address == space);
    }
    /* Detach while the receives are posted and their rank sits in another call. */
    char *rooms[4];
    MPI_Request requests[4];
    for (int i = 0; i < 4; i++) {
        rooms[i] = check_alloc(60000);
        CHECK_OK(MPI_Irecv(rooms[i], 60000, MPI_CHAR, before, i, comm, &requests[i]));
    }
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int i = 3; i >= 0; i--) {
        fill(data, 60000, (unsigned)(check_rank + i));
        CHECK_OK(MPI_Bsend(data, 60000, MPI_CHAR, next, i, comm));
    }
    if (check_rank == 0) {
        CHECK_OK(MPI_Buffer_detach(&address, &size));
        CHECK_OK(MPI_Barrier(comm));
    } else {
        CHECK_OK(MPI_Barrier(comm));
        CHECK_OK(MPI_Buffer_detach(&address, &size));
    }
    CHECK_OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 4; i++) {
        CHECK_FILL(rooms[i], 60000, before + i);
        free(rooms[i]);
    }
    CHECK_OK(MPI_Comm_free(&comm));
    free(space);
    free(data);
    return check_end();
}
