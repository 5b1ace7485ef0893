/* With MPI_THREAD_MULTIPLE, too, what calls have sent leaves before the program computes: of one thread, in any communicator; what one
 * thread has begun and another one completes; and what a thread has left behind that calls no more, while another one waits for its
 * consequences.
 *
 * Covers: 2.9, 3.5, 3.7.4, 11.6
 * Ranks: 2
 * Node: one
 * Timeout: 120
 * Default: WEFT_TRANSPORT=softroce
 */
#define _GNU_SOURCE
#include "computes.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { OFTEN = 100 };

struct beginner {
    MPI_Comm comm;
    int step, values[MESSAGES];
    MPI_Request requests[MESSAGES];
    atomic_int has_begun, may_end;
};

/* A thread that works with the communicator so much that its lane is the thread's own, begins some messages, and calls no more. */
static void *begin(void *argument)
{
    struct beginner *beginner = argument;
    const struct timespec nap = {0, 1000000};
    for (int i = 0; i < OFTEN; i++) CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 77, beginner->comm));
    for (int i = 0; i < MESSAGES; i++) {
        beginner->values[i] = i;
        CHECK_OK(MPI_Isend(&beginner->values[i], 1, MPI_INT, 1, beginner->step, beginner->comm, &beginner->requests[i]));
    }
    beginner->has_begun = 1;
    while (!beginner->may_end) nanosleep(&nap, NULL);
    return NULL;
}

/* What `beginner` has sent; the last of it may come late. */
static void receive_begun(int step, MPI_Comm comm)
{
    MPI_Request requests[MESSAGES];
    int values[MESSAGES];
    for (int i = 0; i < OFTEN; i++) CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 77, comm, MPI_STATUS_IGNORE));
    receive_all(step, requests, values, comm);
}

static int steps_of_two(MPI_Comm comm, MPI_Comm other, int step)
{
    for (int way = 0; way < 2; way++, step++) {
        struct beginner beginner = {.comm = comm, .step = step};
        pthread_t thread;
        if (check_rank == 0) {
            CHECK_INT(pthread_create(&thread, NULL, begin, &beginner), 0);
            while (!beginner.has_begun) sched_yield();
            if (way == 0) {
                CHECK_OK(MPI_Waitall(MESSAGES, beginner.requests, MPI_STATUSES_IGNORE));
                compute(step);
            } else {
                CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, step, other, MPI_STATUS_IGNORE));
            }
            beginner.may_end = 1;
            CHECK_INT(pthread_join(thread, NULL), 0);
            if (way == 1) CHECK_OK(MPI_Waitall(MESSAGES, beginner.requests, MPI_STATUSES_IGNORE));
        } else {
            receive_begun(step, comm);
            if (way == 0)
                has_gone_on(step);
            else
                CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, step, other));
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return step;
}

int main(int argc, char **argv)
{
    MPI_Comm first, second;
    int provided, step;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    share();
    step = steps_in(MPI_COMM_WORLD, 0);
    step = steps_in(first, step);
    step = steps_of_two(MPI_COMM_WORLD, first, step);
    step = steps_of_two(first, second, step);
    step = steps_of_two(second, MPI_COMM_WORLD, step);
    step = steps_of_two(second, second, step);
    CHECK_INT(step, 28);
    CHECK_OK(MPI_Comm_free(&first));
    CHECK_OK(MPI_Comm_free(&second));
    return check_end();
}
