/* Sends and puts of 8 bytes over an emulated RDMA device, for benches/posted: each of those that are stepped through begins with a call
 * of `next_call_is_stepped`. */
#include <mpi.h>

enum { CALLS = 40, STEPPED = 3, LOOKS = 20 };

static volatile int marks;

__attribute__((noinline)) void next_call_is_stepped(void)
{
    marks++;
}

/* Takes the acknowledgements of what went before. */
static void look(void)
{
    int i, flag;
    for (i = 0; i < LOOKS; i++)
        MPI_Iprobe(1, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    char data[8] = {0}, *memory;
    int rank, i;
    MPI_Win window;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (i = 0; i < CALLS; i++) {
        int stepped = i >= CALLS - STEPPED;
        if (rank == 1) {
            MPI_Recv(data, 8, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            continue;
        }
        if (stepped)
            next_call_is_stepped();
        MPI_Isend(data, 8, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        look();
        if (stepped)
            next_call_is_stepped();
        MPI_Put(data, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
        look();
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
