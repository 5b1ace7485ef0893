/* Many threads mark partitions of one request, and ask for arrival of others, at the same time.
 *
 * Covers: 4.2, 4.2.1, 11.6
 * Ranks: 2
 */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define PARTITIONS 64
#define PART 500

static unsigned char out[PARTITIONS * PART], in[PARTITIONS * PART];
static MPI_Request send, receive;
static unsigned round_now;

static void *work(void *argument)
{
    int me = (int)(intptr_t)argument, flag;
    for (int i = me; i < PARTITIONS; i += THREADS) {
        fill(out + i * PART, PART, round_now + (unsigned)i);
        CHECK_OK(MPI_Pready(i, send));
    }
    for (int i = me; i < PARTITIONS / 2; i += THREADS) {
        do CHECK_OK(MPI_Parrived(receive, i, &flag));
        while (!flag);
        CHECK_FILL(in + 2 * i * PART, PART, round_now + 2 * (unsigned)i);
        CHECK_FILL(in + (2 * i + 1) * PART, PART, round_now + 2 * (unsigned)i + 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    int peer = 1 - check_rank;
    CHECK_OK(MPI_Psend_init(out, PARTITIONS, PART, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(in, PARTITIONS / 2, 2 * PART, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    for (round_now = 0; round_now < 30; round_now++) {
        pthread_t threads[THREADS];
        memset(in, 0, sizeof in);
        CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Start(&send));
        for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    return check_end();
}
