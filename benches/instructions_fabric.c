/* Counts the instructions of single MPI calls over an emulated RDMA device (WEFT_TRANSPORT=softroce), as instructions.c does inside a node: rows
 * "fabric_...". What the device itself does from its post_send, send_few or write_few on is taken off by benches/instructions, so that a row is the
 * way from the call to the posted work request and back.
 *
 * Between the calls that are counted rank 1 takes what has come, and rank 0 the acknowledgements.
 */
#include "counting.h"

enum { LOOKS = 5 };

static MPI_Win window;

static void look(void)
{
    int i, flag;
    for (i = 0; i < LOOKS; i++)
        MPI_Iprobe(1 - rank, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* Lets the other rank do its part, and takes what the device has to tell. */
static void let_other(void)
{
    done();
    await_other();
    look();
}

static void isend_call(int size)
{
    if (rank == 0) {
        MPI_Request request;
        COUNT(MPI_Isend(data, size, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        let_other();
    } else {
        await_other();
        MPI_Recv(data, size, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        done();
    }
}

/* One of a row of puts in a passive epoch. */
static void put_call(int size)
{
    if (rank == 0) {
        COUNT(MPI_Put(data, size, MPI_CHAR, 1, 0, size, MPI_CHAR, window));
        let_other();
    } else {
        await_other();
        look();
        done();
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*one)(int);
        int size;
    } rows[] = {
        {"nothing", nothing, 0}, {"fabric_MPI_Isend_8", isend_call, 8}, {"fabric_MPI_Put_8", put_call, 8},
    };
    size_t k;
    int i;
    char *memory;
    MPI_Init(&argc, &argv);
    begin_counting();
    MPI_Win_allocate(MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (k = 0; k < sizeof rows / sizeof *rows; k++) {
        for (i = -WARMUP; i < CALLS; i++) {
            if (i == 0)
                CALLGRIND_ZERO_STATS;
            rows[k].one(rows[k].size);
        }
        if (rank == 0)
            dump(rows[k].name, CALLS);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
