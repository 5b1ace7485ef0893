/* MPI_THREAD_MULTIPLE: several threads make, use and free communicators at the same time, from parents of their own and, told
 * apart by tags, from one parent.
 *
 * Covers: 7.4.2, 11.6.1
 * Ranks: 1 2 4
 * Timeout: 180
 */
#include "check.h"
#include <pthread.h>

#define THREADS 4
static MPI_Comm parents[THREADS];

static void use(MPI_Comm comm, int salt)
{
    int me, n, sum = 0, mine, token = -1;
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_size(comm, &n));
    mine = me + salt;
    CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_INT(sum, n * (n - 1) / 2 + n * salt);
    CHECK_OK(MPI_Sendrecv(&mine, 1, MPI_INT, (me + 1) % n, 5, &token, 1, MPI_INT, (me + n - 1) % n, 5, comm, MPI_STATUS_IGNORE));
    CHECK_INT(token, (me + n - 1) % n + salt);
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument;
    MPI_Group world;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int i = 0; i < 25; i++) {
        MPI_Comm dup, half, of_group, idup;
        MPI_Request request;
        CHECK_OK(MPI_Comm_dup(parents[t], &dup));
        use(dup, 10 * t + i);
        CHECK_OK(MPI_Comm_split(dup, check_rank % 2, -check_rank, &half));
        use(half, i);
        CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, t, &of_group));
        use(of_group, t);
        CHECK_OK(MPI_Comm_idup(half, &idup, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        use(idup, t + i);
        CHECK_OK(MPI_Comm_free(&dup));
        CHECK_OK(MPI_Comm_free(&idup));
        CHECK_OK(MPI_Comm_free(&half));
        CHECK_OK(MPI_Comm_free(&of_group));
    }
    CHECK_OK(MPI_Group_free(&world));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parents[t]));
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&parents[t]));
    return check_end();
}
