/* One member of a communicator cannot open its end of the communicator's lane, because it may open no more files: all members get the
 * communicator, and all talk in it. When it may open files again, the next communicators have lanes of their own.
 *
 * Covers: 7.4.2, 11.6
 * Ranks: 3 4
 * Env: WEFT_LANES=4
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { COMMS = 4 };

static void talk(MPI_Comm comm)
{
    int sum = 0, got = -1, left = (check_rank + check_size - 1) % check_size, right = (check_rank + 1) % check_size;
    CHECK_OK(MPI_Allreduce(&check_rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_INT(sum, check_size * (check_size - 1) / 2);
    for (int peer = 0; peer < check_size; peer++) {
        if (peer == check_rank) continue;
        CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, peer, 3, &got, 1, MPI_INT, peer, 3, comm, MPI_STATUS_IGNORE));
        CHECK_INT(got, peer);
    }
    CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, right, 4, &got, 1, MPI_INT, left, 4, comm, MPI_STATUS_IGNORE));
    CHECK_INT(got, left);
}

int main(int argc, char **argv)
{
    int provided, victim;
    struct rlimit before, none;
    MPI_Comm comms[2 * COMMS], halves[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    victim = check_size - 1;
    /* All have met, and files that this takes are open. */
    talk(MPI_COMM_WORLD);
    getrlimit(RLIMIT_NOFILE, &before);
    if (check_rank == victim) {
        none = before;
        none.rlim_cur = 3;
        CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
    }
    for (int i = 0; i < COMMS; i++) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        talk(comms[i]);
    }
    /* Only one of the two has the member that cannot. */
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == victim, 0, &halves[0]));
    CHECK_OK(MPI_Barrier(halves[0]));
    if (check_rank == victim) CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    for (int i = COMMS; i < 2 * COMMS; i++) {
        CHECK_OK(MPI_Comm_dup(comms[i - COMMS], &comms[i]));
        talk(comms[i]);
    }
    CHECK_OK(MPI_Comm_split(comms[0], check_rank % 2, 0, &halves[1]));
    CHECK_OK(MPI_Barrier(halves[1]));
    for (int i = 0; i < 2 * COMMS; i++) talk(comms[i]);
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Comm_free(&halves[i]));
    for (int i = 0; i < 2 * COMMS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
