/* With several threads a ready partition travels at once, too: a thread marks one and then makes no call, while another is blocked in a
 * receive of the word that it has arrived.
 *
 * Covers: 4.2, 4.2.2
 * Ranks: 2
 */
#include "check.h"
#include <pthread.h>

#define PART 24

static unsigned char out[20 * PART], in[20 * PART];
static MPI_Request send, receive;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int wanted = -1;

static void want(int partition)
{
    pthread_mutex_lock(&lock);
    wanted = partition;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

/* One partition when it is told to. */
static void *obedient(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&lock);
        while (wanted < i) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        fill(out + i * PART, PART, (unsigned)i);
        CHECK_OK(MPI_Pready(i, send));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t other;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    if (check_rank == 0) {
        CHECK_OK(MPI_Psend_init(out, 20, PART, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        CHECK_OK(MPI_Start(&send));
        pthread_create(&other, NULL, obedient, NULL);
        for (int i = 0; i < 20; i++) {
            want(i);
            CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        pthread_join(other, NULL);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&send));
    } else {
        CHECK_OK(MPI_Precv_init(in, 20, PART, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        CHECK_OK(MPI_Start(&receive));
        for (int i = 0; i < 20; i++) {
            int here = 0;
            while (!here) CHECK_OK(MPI_Parrived(receive, i, &here));
            CHECK_FILL(in + i * PART, PART, i);
            CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, i, MPI_COMM_WORLD));
        }
        CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&receive));
    }
    return check_end();
}
