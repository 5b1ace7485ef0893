/* Sends and puts of 8 bytes over an emulated RDMA device, for benches/posted: each of those that are stepped through begins with a call
 * of `next_call_is_stepped`. */
#include <mpi.h>

/* STEPPED, how many of each are stepped through, is the compiler's. */
enum { CALLS = 40, LOOKS = 20 };

static volatile int marks;

__attribute__((noinline)) void next_call_is_stepped(void)
{
    marks++;
}

static char data[8];
static MPI_Win window;

/* Takes the acknowledgements of what went before. */
static void look(int times)
{
    int flag;
    while (times-- > 0)
        MPI_Iprobe(1, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

static void send(int stepped)
{
    MPI_Request request;
    if (stepped)
        next_call_is_stepped();
    MPI_Isend(data, 8, MPI_CHAR, 1, 7, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void put(int stepped)
{
    if (stepped)
        next_call_is_stepped();
    MPI_Put(data, 8, MPI_CHAR, 1, 0, 8, MPI_CHAR, window);
}

int main(int argc, char **argv)
{
    static void (*const deeds[])(int) = {send, put};
    char *memory;
    int rank, i, deed, before;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Win_allocate(8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        for (i = 0; i < CALLS + STEPPED * (STEPPED + 1) / 2; i++)
            MPI_Recv(data, 8, MPI_CHAR, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else {
        for (i = 0; i < CALLS; i++)
            for (deed = 0; deed < 2; deed++) {
                deeds[deed](0);
                look(LOOKS);
            }
        /* Stepping takes so long that a burst ends with it, so each is at another place of its burst: one of sixteen tells. */
        for (i = 0; i < STEPPED; i++)
            for (deed = 0; deed < 2; deed++) {
                for (before = 0; before < i; before++) {
                    deeds[deed](0);
                    look(1);
                }
                deeds[deed](1);
                look(LOOKS);
            }
    }
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
