/* What is made and freed again and again takes no more memory after three thousand times than after two hundred: the library keeps
 * nothing of a request, message, communicator, datatype, group, window, key, error handler or info object that is gone.
 *
 * Covers: 7.4.3
 * Ranks: 1 2
 * Timeout: 120
 */
#include "check.h"
#include <malloc.h>

static int copy(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
    (void)comm;
    (void)key;
    (void)extra;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

static char data[2][100000], window[64];

static void messages(void)
{
    int other = (check_rank + 1) % check_size;
    MPI_Request requests[3];
    MPI_Status status;
    MPI_Message message;
    /* Small, in packets, and announced; expected and not. */
    static const int lengths[] = {8, 9000, 100000};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(MPI_Irecv(data[0], lengths[i], MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Isend(data[1], lengths[i], MPI_BYTE, other, i, MPI_COMM_WORLD, &requests[1]));
        CHECK_OK(MPI_Issend(data[1], 8, MPI_BYTE, other, 5, MPI_COMM_WORLD, &requests[2]));
        CHECK_OK(MPI_Mprobe(other, 5, MPI_COMM_WORLD, &message, &status));
        CHECK_OK(MPI_Mrecv(data[0], 8, MPI_BYTE, &message, &status));
        CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    }
    CHECK_OK(MPI_Irecv(data[0], 8, MPI_BYTE, other, 9, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Cancel(&requests[0]));
    CHECK_OK(MPI_Wait(&requests[0], &status));
    CHECK_OK(MPI_Send_init(data[1], 8, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Recv_init(data[0], 8, MPI_BYTE, other, 2, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Startall(2, requests));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Request_free(&requests[0]));
    CHECK_OK(MPI_Request_free(&requests[1]));
}

static void objects(void)
{
    MPI_Comm twin, part;
    MPI_Group group, some;
    MPI_Datatype vector, structure;
    MPI_Info info;
    MPI_Errhandler errhandler;
    MPI_Win win;
    MPI_Request request;
    int key, zero = 0, one = 1, sum;
    CHECK_OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    CHECK_OK(MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_OK(MPI_Comm_delete_attr(MPI_COMM_WORLD, key));
    CHECK_OK(MPI_Comm_free_keyval(&key));
    CHECK_OK(MPI_Comm_create_errhandler(handler, &errhandler));
    CHECK_OK(MPI_Comm_set_errhandler(twin, errhandler));
    CHECK_OK(MPI_Errhandler_free(&errhandler));
    CHECK_OK(MPI_Comm_split(twin, 0, -check_rank, &part));
    CHECK_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, part, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(sum, check_size);
    CHECK_OK(MPI_Comm_group(part, &group));
    CHECK_OK(MPI_Group_incl(group, 1, &zero, &some));
    CHECK_OK(MPI_Group_free(&some));
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Comm_free(&part));
    CHECK_OK(MPI_Comm_free(&twin));
    CHECK_OK(MPI_Type_vector(3, 2, 4, MPI_INT, &vector));
    CHECK_OK(MPI_Type_contiguous(2, vector, &structure));
    CHECK_OK(MPI_Type_free(&vector));
    CHECK_OK(MPI_Type_commit(&structure));
    CHECK_OK(MPI_Type_free(&structure));
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "key", "value"));
    CHECK_OK(MPI_Win_create(window, sizeof window, 1, info, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(data[1], 8, MPI_BYTE, (check_rank + 1) % check_size, 0, 8, MPI_BYTE, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Win_free(&win));
}

/* Repeats `work` and demands that it takes no more than `room` bytes beyond what is kept for reuse after the first turns. */
static void repeat(void (*work)(void), size_t room)
{
    size_t before = 0;
    for (int turn = 0; turn < 3000; turn++) {
        if (turn == 200) {
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            before = mallinfo2().uordblks;
        }
        work();
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    size_t after = mallinfo2().uordblks;
    printf("rank %d: %zu bytes in use before, %zu after\n", check_rank, before, after);
    CHECK(after <= before + room);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    repeat(objects, 40000);
    /* Memory of messages that came early is kept by sizes up to 64 KiB; which ones come early is chance. */
    repeat(messages, 250000);
    return check_end();
}
