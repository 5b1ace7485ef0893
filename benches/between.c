/* What a rank does between the system calls of a message; see `between`. Compiled twice: as the program (two ranks play ping-pong with 8 bytes), and
 * with -DSHIM as a library that is loaded before the others and tells callgrind when to count.
 */
#ifdef SHIM
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

/* Messages before the first that is counted: until then connections and sockets of their own are made. An acknowledgement has 20 bytes, and no
 * send follows it. */
enum { SETTLED = 600, ACKNOWLEDGEMENT = 20 };

static int counts, looks, messages;
static long counted;

static void begin(void)
{
    counts = 1;
    CALLGRIND_TOGGLE_COLLECT;
}

static void end(int counted_too)
{
    if (counts) CALLGRIND_TOGGLE_COLLECT;
    counted += counts && counted_too;
    counts = 0;
}

/* Of looks, from one that finds nothing to the next look; else from a message to the next send. */
ssize_t recv(int socket, void *into, size_t room, int flags)
{
    end(looks);
    ssize_t came = syscall(SYS_recvfrom, socket, into, room, flags, NULL, NULL);
    int message = came > ACKNOWLEDGEMENT;
    messages += message;
    if (messages > SETTLED && (looks ? came < 0 : message)) begin();
    return came;
}

ssize_t send(int socket, const void *bytes, size_t length, int flags)
{
    end(!looks);
    return syscall(SYS_sendto, socket, bytes, length, flags, NULL, 0);
}

__attribute__((constructor)) static void start(void)
{
    looks = getenv("BETWEEN_LOOKS") != NULL;
}

__attribute__((destructor)) static void stop(void)
{
    end(0);
    fprintf(stderr, "COUNTED %d %ld\n", (int)getpid(), counted);
}
#else
#include <mpi.h>

enum { TIMES = 2600 };

int main(int argc, char **argv)
{
    char bytes[8] = {0};
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < TIMES; i++) {
        if (rank == 0) MPI_Send(bytes, sizeof bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(bytes, sizeof bytes, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(bytes, sizeof bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
    }
    return MPI_Finalize();
}
#endif
