/* Threads that live through many starts mark single partitions, ranges and lists, while one of them keeps the library busy with other
 * calls: whatever is marked arrives, whole and once, whoever sends it.
 *
 * Covers: 4.2, 4.2.1, 4.2.2, 11.6
 * Ranks: 2
 */
#include "check.h"
#include <pthread.h>

#define MARKERS 4
#define PARTITIONS 261
#define PART 24
#define ROUNDS 40

static unsigned char out[PARTITIONS * PART], in[PARTITIONS * PART];
static MPI_Request send, receive;
static pthread_barrier_t barrier;
static int busy = 1; /* an atomic */

static void mark(int i, unsigned turn)
{
    fill(out + i * PART, PART, turn * 7 + (unsigned)i);
}

/* Marks every MARKERS-th block of eight partitions, each block in one of three ways. */
static void *marker(void *argument)
{
    int me = (int)(intptr_t)argument;
    for (unsigned turn = 0; turn < ROUNDS; turn++) {
        pthread_barrier_wait(&barrier);
        for (int low = 8 * me; low < PARTITIONS; low += 8 * MARKERS) {
            int high = low + 7 < PARTITIONS ? low + 7 : PARTITIONS - 1, list[8], n = 0;
            for (int i = low; i <= high; i++) mark(i, turn);
            for (int i = high; i >= low; i--) list[n++] = i;
            switch ((low / 8 + (int)turn) % 3) {
            case 0: CHECK_OK(MPI_Pready_range(low, high, send)); break;
            case 1: CHECK_OK(MPI_Pready_list(n, list, send)); break;
            default:
                for (int i = low; i <= high; i++) CHECK_OK(MPI_Pready(i, send));
            }
        }
        for (int i = me; i < PARTITIONS; i += MARKERS) {
            int here = 0;
            while (!here) CHECK_OK(MPI_Parrived(receive, i, &here));
            CHECK_FILL(in + i * PART, PART, turn * 7 + (unsigned)i);
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void *bustler(void *argument)
{
    int flag;
    (void)argument;
    while (__atomic_load_n(&busy, __ATOMIC_RELAXED))
        CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[MARKERS], other;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    int peer = 1 - check_rank;
    CHECK_OK(MPI_Psend_init(out, PARTITIONS, PART, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(in, PARTITIONS, PART, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    pthread_barrier_init(&barrier, NULL, MARKERS + 1);
    for (int i = 0; i < MARKERS; i++) pthread_create(&threads[i], NULL, marker, (void *)(intptr_t)i);
    pthread_create(&other, NULL, bustler, NULL);
    for (int turn = 0; turn < ROUNDS; turn++) {
        memset(in, 0, sizeof in);
        CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Start(&send));
        pthread_barrier_wait(&barrier);
        if (turn % 2) CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        pthread_barrier_wait(&barrier);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    }
    __atomic_store_n(&busy, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < MARKERS; i++) pthread_join(threads[i], NULL);
    pthread_join(other, NULL);
    pthread_barrier_destroy(&barrier);
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    return check_end();
}
