/* MPI_THREAD_MULTIPLE: a thread blocked in a receive, a wait, a probe or a barrier does not block the others; a receive in
 * one thread is satisfied by a send of another thread of the same process.
 *
 * Covers: 11.6.1, 2.9
 * Ranks: 1 2
 */
#include "check.h"
#include <pthread.h>

static int stage;

static void *blocked(void *argument)
{
    int value = 0;
    MPI_Request request;
    (void)argument;
    switch (stage) {
    case 0: CHECK_OK(MPI_Recv(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); break;
    case 1:
        CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 2:
        CHECK_OK(MPI_Probe(check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    default:
        value = 4711;
        CHECK_OK(MPI_Ssend(&value, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD));
    }
    CHECK_INT(value, 4711);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    for (stage = 0; stage < 4; stage++) {
        pthread_t thread;
        int value = 4711;
        pthread_create(&thread, NULL, blocked, NULL);
        usleep(30000);
        /* Meanwhile this thread does other things. */
        for (int i = 0; i < 50; i++) {
            int sum = 0, one = 1, peer = check_size - 1 - check_rank, got = -1;
            CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            CHECK_INT(sum, check_size);
            CHECK_OK(MPI_Sendrecv(&i, 1, MPI_INT, peer, 3, &got, 1, MPI_INT, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_INT(got, i);
        }
        if (stage < 3)
            CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
        else {
            value = 0;
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_INT(value, 4711);
        }
        pthread_join(thread, NULL);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return check_end();
}
