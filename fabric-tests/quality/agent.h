/* While one process computes and calls no MPI, its progress agent receives a large message, answers for its window and takes part in a
 * collective. They tell each other by memory that MPI knows nothing of. Functions of the program stay in the program's thread. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

enum { PATIENCE = 60000, LENGTH = 1 << 19 };

static volatile int *done;
static pthread_t mine;
static int elsewhere;

/* One page of memory that both processes see. */
static void share(void)
{
    char path[] = "/tmp/weft-agent-XXXXXX";
    int file = check_rank == 0 ? mkstemp(path) : -1;
    if (file >= 0 && ftruncate(file, 4096) != 0) CHECK_FAIL("no file of a page");
    CHECK_OK(MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (check_rank != 0) file = open(path, O_RDWR);
    done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file < 0 || done == MAP_FAILED) {
        CHECK_FAIL("no memory to share");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) unlink(path);
}

/* Computes, as it were, until the other process has said that its part is over. */
static void compute_until(int part)
{
    const struct timespec pause = {0, 1000000};
    for (int i = 0; i < PATIENCE && *done != part; i++) nanosleep(&pause, NULL);
    CHECK_INT(*done, part);
}

static void add(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    if (!pthread_equal(mine, pthread_self())) elsewhere++;
    for (int i = 0; i < *length; i++) ((long long *)inout)[i] += ((long long *)in)[i];
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    share();
    mine = pthread_self();
    long long *data = check_alloc(LENGTH * sizeof *data), *sums = check_alloc(LENGTH * sizeof *sums), *memory;
    MPI_Win win;
    MPI_Op op;
    MPI_Request request;
    CHECK_OK(MPI_Win_allocate(8 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win));
    for (int i = 0; i < 8; i++) memory[i] = 1;
    CHECK_OK(MPI_Op_create(add, 1, &op));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));

    for (int turn = 0; turn < 3; turn++) {
        int part = 10 * turn;
        /* A synchronous send ends when its receive is under way. */
        for (int i = 0; i < LENGTH; i++) data[i] = check_rank == 0 ? turn + i : 0;
        if (check_rank == 0) {
            CHECK_OK(MPI_Ssend(data, LENGTH, MPI_LONG_LONG, 1, turn, MPI_COMM_WORLD));
            *done = part + 1;
        } else {
            CHECK_OK(MPI_Irecv(data, LENGTH, MPI_LONG_LONG, 0, turn, MPI_COMM_WORLD, &request));
            compute_until(part + 1);
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int i = 0; i < LENGTH; i += 1000) CHECK_INT(data[i], turn + i);
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        /* A passive target. */
        if (check_rank == 0) {
            long long sum = 0, two = 2;
            CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win));
            CHECK_OK(MPI_Accumulate(&two, 1, MPI_LONG_LONG, 1, 3, 1, MPI_LONG_LONG, MPI_SUM, win));
            CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_LONG_LONG, &sum, 1, MPI_LONG_LONG, 1, 3, 1, MPI_LONG_LONG, MPI_NO_OP, win));
            CHECK_OK(MPI_Win_unlock(1, win));
            CHECK_INT(sum, 1 + 2 * (turn + 1));
            *done = part + 2;
        } else {
            compute_until(part + 2);
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        /* A collective, in which every process has several steps. */
        for (int i = 0; i < LENGTH; i++) data[i] = check_rank + i;
        CHECK_OK(MPI_Iallreduce(data, sums, LENGTH, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD, &request));
        if (check_rank == 1) compute_until(part + 3);
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        *done = part + 3;
        for (int i = 0; i < LENGTH; i += 1000) CHECK_INT(sums[i], 1 + 2 * i);
        /* The program's own function waits for the program. */
        CHECK_OK(MPI_Iallreduce(data, sums, LENGTH, MPI_LONG_LONG, op, MPI_COMM_WORLD, &request));
        if (check_rank == 1) usleep(50000);
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < LENGTH; i += 1000) CHECK_INT(sums[i], 1 + 2 * i);
        CHECK_INT(elsewhere, 0);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
