/* A thread that only tests moves what another thread has begun, also when that one has long been the only one to work with its
 * communicator and is outside MPI now.
 *
 * Covers: 2.9, 3.5, 3.7.3, 11.6
 * Ranks: 2
 * Timeout: 180
 */
#include "check.h"
#include <pthread.h>
#include <sched.h>

enum { EXCHANGES = 2000, LARGE = 4 << 20 };

static MPI_Comm comms[2];
static char *large;
static int begun, over;

/* Works alone with its communicator, begins a large send, and leaves MPI until the other thread has seen its end at the receiver. */
static void *begin(void *unused)
{
    MPI_Request request;
    int value = 0;
    (void)unused;
    for (int i = 0; i < EXCHANGES; i++) {
        CHECK_OK(MPI_Send(&value, 1, MPI_INT, 1, 1, comms[0]));
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 1, 1, comms[0], MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Isend(large, LARGE, MPI_CHAR, 1, 2, comms[0], &request));
    __atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) sched_yield();
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = 0, value = 0, flag = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    large = malloc(LARGE);
    fill(large, LARGE, check_rank == 0 ? 7 : 8);
    /* Once with communicators of their own, once with the large message in MPI_COMM_WORLD, once with the tests in it. */
    for (int round = 0; round < 3; round++) {
        comms[0] = comms[1] = MPI_COMM_WORLD;
        if (round != 1) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
        if (round != 2) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
        begun = over = 0;
        if (check_rank == 0) {
            pthread_t thread;
            MPI_Request request;
            pthread_create(&thread, NULL, begin, NULL);
            while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE)) sched_yield();
            CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, 1, 3, comms[1], &request));
            for (flag = 0; !flag;) CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
            CHECK_INT(value, 1234 + round);
            __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
            pthread_join(thread, NULL);
        } else {
            for (int i = 0; i < EXCHANGES; i++) {
                CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, 1, comms[0], MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Send(&value, 1, MPI_INT, 0, 1, comms[0]));
            }
            memset(large, 0, LARGE);
            CHECK_OK(MPI_Recv(large, LARGE, MPI_CHAR, 0, 2, comms[0], MPI_STATUS_IGNORE));
            CHECK_INT(first_difference_from_fill(large, LARGE, 7), LARGE);
            value = 1234 + round;
            CHECK_OK(MPI_Send(&value, 1, MPI_INT, 0, 3, comms[1]));
        }
        for (int i = 0; i < 2; i++)
            if (comms[i] != MPI_COMM_WORLD) CHECK_OK(MPI_Comm_free(&comms[i]));
    }
    free(large);
    return check_end();
}
