/* MPI_THREAD_MULTIPLE with many threads and communicators: twelve threads, each with three communicators of its own, have requests
 * and matched messages under way in all of these at once, and complete them in calls that take requests of several communicators.
 *
 * Covers: 11.6.1, 11.6.2, 3.7.5, 3.8.2, 7.4.2
 * Ranks: 1 2 3
 * Env: WEFT_LANES=32
 * Timeout: 180
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 12, EACH = 3, ROUNDS = 40, FLIGHT = 5 };

static MPI_Comm comms[THREADS * EACH];

/* What rank `from` sends in a round as message `i` of a communicator. */
static int content(int from, int comm, int round, int i)
{
    return ((from * 64 + comm) * ROUNDS + round) * FLIGHT + i;
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, n = check_size, next = (check_rank + 1) % n, before = (check_rank + n - 1) % n;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request requests[EACH * FLIGHT * 2], sums[EACH];
        MPI_Status statuses[EACH * FLIGHT * 2];
        int got[EACH][FLIGHT], out[EACH][FLIGHT], mine[EACH], sum[EACH], count = 0;
        for (int c = 0; c < EACH; c++)
            for (int i = 0; i < FLIGHT; i++) {
                out[c][i] = content(check_rank, t * EACH + c, round, i);
                got[c][i] = -1;
                if (i) CHECK_OK(MPI_Irecv(&got[c][i], 1, MPI_INT, before, i, comms[t * EACH + c], &requests[count++]));
            }
        for (int i = 0; i < FLIGHT; i++)
            for (int c = 0; c < EACH; c++)
                CHECK_OK(MPI_Isend(&out[c][i], 1, MPI_INT, next, i, comms[t * EACH + c], &requests[count++]));
        for (int c = 0; c < EACH; c++) {
            mine[c] = content(check_rank, t * EACH + c, round, 0);
            CHECK_OK(MPI_Iallreduce(&mine[c], &sum[c], 1, MPI_INT, MPI_SUM, comms[t * EACH + c], &sums[c]));
        }
        MPI_Message messages[EACH];
        for (int c = 0; c < EACH; c++)
            CHECK_OK(MPI_Mprobe(before, 0, comms[t * EACH + c], &messages[c], MPI_STATUS_IGNORE));
        for (int c = EACH; c-- > 0;)
            CHECK_OK(MPI_Imrecv(&got[c][0], 1, MPI_INT, &messages[c], &requests[count++]));
        /* Receives in whichever communicators are different requests. */
        for (int a = 0; a < EACH * (FLIGHT - 1); a++)
            for (int b = 0; b < a; b++) CHECK(requests[a] != requests[b]);
        if (round % 3 == 0) {
            CHECK_OK(MPI_Waitall(count, requests, statuses));
        } else {
            for (int left = count, index; left > 0; left--) {
                CHECK_OK(MPI_Waitany(count, requests, &index, &statuses[0]));
                CHECK(index != MPI_UNDEFINED);
            }
        }
        CHECK_OK(MPI_Waitall(EACH, sums, MPI_STATUSES_IGNORE));
        for (int c = 0; c < EACH; c++) {
            int all = 0;
            for (int from = 0; from < n; from++) all += content(from, t * EACH + c, round, 0);
            CHECK_INT(sum[c], all);
            for (int i = 0; i < FLIGHT; i++) CHECK_INT(got[c][i], content(before, t * EACH + c, round, i));
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    for (int c = 0; c < THREADS * EACH; c++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int c = 0; c < THREADS * EACH; c++) CHECK_OK(MPI_Comm_free(&comms[c]));
    return check_end();
}
