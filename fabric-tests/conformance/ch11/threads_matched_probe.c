/* MPI_THREAD_MULTIPLE: several threads of one rank take messages from one communicator by matched probes: each message is
 * received exactly once, by the thread that matched it.
 *
 * Covers: 3.8.2, 11.6.1
 * Ranks: 2 3
 * Timeout: 120
 */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4
#define EACH 1500

static atomic_int taken;
static atomic_char seen[8][EACH];

static void *receive(void *unused)
{
    int total = EACH * (check_size - 1);
    static const int limit = 70000;
    unsigned char *in = check_alloc(limit);
    (void)unused;
    while (atomic_load(&taken) < total) {
        int flag = 0, length = -1, number = -1;
        MPI_Message message;
        MPI_Status status;
        CHECK_OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status));
        if (!flag) {
            usleep(50);
            continue;
        }
        CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &length));
        int source = status.MPI_SOURCE;
        CHECK_OK(MPI_Mrecv(in, length, MPI_BYTE, &message, &status));
        CHECK_INT(status.MPI_SOURCE, source);
        memcpy(&number, in, sizeof number);
        CHECK(number >= 0 && number < EACH);
        CHECK_INT(atomic_exchange(&seen[source][number], 1), 0);
        CHECK_FILL(in + 4, length - 4, number);
        atomic_fetch_add(&taken, 1);
    }
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    if (check_rank == 0) {
        pthread_t threads[THREADS];
        for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, receive, NULL);
        for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    } else {
        unsigned char *out = check_alloc(70000);
        for (int i = 0; i < EACH; i++) {
            int length = i % 50 == 0 ? 66000 : 4 + i % 300;
            memcpy(out, &i, sizeof i);
            fill(out + 4, (size_t)length - 4, (unsigned)i);
            CHECK_OK(MPI_Send(out, length, MPI_BYTE, 0, i % 7, MPI_COMM_WORLD));
        }
        free(out);
    }
    return check_end();
}
