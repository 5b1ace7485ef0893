/* MPI_THREAD_MULTIPLE: a thread that has been blocked for a while, in a communicator of its own or a shared one, goes on when
 * another thread of the same process does what it waits for; again and again, so that a wake-up that is lost or late adds up.
 *
 * Covers: 3.7.3, 3.8.1, 11.6.1, 11.6.2, 13.2
 * Ranks: 1 2
 * Timeout: 120
 */
#include "check.h"
#include <pthread.h>

#define ROUNDS 60
static MPI_Comm comms[3];
/* One for each round: a thread that is late for a round still finds the request of that round. */
static MPI_Request generalized[ROUNDS];
static pthread_barrier_t both;
static int kind, freed;

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    freed++;
    return MPI_SUCCESS;
}

static int refuse(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static void *blocked(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm comm = comms[i % 3];
        MPI_Request requests[2];
        MPI_Message message;
        int value = 0, index;
        pthread_barrier_wait(&both);
        switch (kind) {
        case 0: CHECK_OK(MPI_Recv(&value, 1, MPI_INT, check_rank, i, comm, MPI_STATUS_IGNORE)); break;
        case 1:
            CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, MPI_ANY_SOURCE, i, comm, &requests[0]));
            CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            break;
        case 2:
            CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, i, comm, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, check_rank, i, comm, MPI_STATUS_IGNORE));
            break;
        case 3:
            CHECK_OK(MPI_Mprobe(check_rank, MPI_ANY_TAG, comm, &message, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Mrecv(&value, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
            break;
        case 4:
            value = i;
            CHECK_OK(MPI_Ssend(&value, 1, MPI_INT, check_rank, i, comm));
            break;
        case 5:
            requests[0] = generalized[i];
            CHECK_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
            value = i;
            break;
        default:
            /* One of two communicators' requests; the other is taken back. */
            CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, check_rank, i, comm, &requests[0]));
            CHECK_OK(MPI_Irecv(&index, 1, MPI_INT, check_rank, 7777, comms[(i + 1) % 3], &requests[1]));
            CHECK_OK(MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
            CHECK_INT(index, 0);
            CHECK_OK(MPI_Cancel(&requests[1]));
            CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        }
        CHECK_INT(value, i);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    comms[0] = MPI_COMM_WORLD;
    for (int c = 1; c < 3; c++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
    pthread_barrier_init(&both, NULL, 2);
    for (kind = 0; kind < 7; kind++) {
        pthread_t other;
        pthread_create(&other, NULL, blocked, NULL);
        for (int i = 0; i < ROUNDS; i++) {
            int value = -1;
            if (kind == 5) CHECK_OK(MPI_Grequest_start(query, release, refuse, NULL, &generalized[i]));
            pthread_barrier_wait(&both);
            usleep(i % 4 * 700);
            if (kind == 5) {
                MPI_Request same = generalized[i];
                CHECK_OK(MPI_Grequest_complete(same));
            } else if (kind == 4) {
                CHECK_OK(MPI_Recv(&value, 1, MPI_INT, check_rank, i, comms[i % 3], MPI_STATUS_IGNORE));
                CHECK_INT(value, i);
            } else {
                CHECK_OK(MPI_Send(&i, 1, MPI_INT, check_rank, i, comms[i % 3]));
            }
        }
        pthread_join(other, NULL);
    }
    CHECK_INT(freed, ROUNDS);
    for (int c = 1; c < 3; c++) CHECK_OK(MPI_Comm_free(&comms[c]));
    return check_end();
}
