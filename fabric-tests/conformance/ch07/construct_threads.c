/* MPI_THREAD_MULTIPLE: threads make communicators at the same time, on communicators of their own, on one communicator with different
 * tags (also tags that differ in high bits only), from groups with different string tags, and intercommunicators; orders differ
 * from process to process.
 *
 * Covers: 7.4.2, 7.6.2, 11.6
 * Ranks: 1 2 3
 * Timeout: 240
 */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 60

static MPI_Comm own[THREADS], everybody;
static MPI_Group world;

static void use(MPI_Comm comm, int value)
{
    int sum = -1;
    CHECK_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_INT(sum, value * check_size);
    CHECK_OK(MPI_Comm_free(&comm));
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument, me = check_rank, n = check_size;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm comm;
        MPI_Request request;
        char tag[32];
        if ((i + me + t) % 9 == 0) usleep(300);
        CHECK_OK(MPI_Comm_dup(own[t], &comm));
        use(comm, i + t);
        CHECK_OK(MPI_Comm_create_group(everybody, world, i + (t << 19), &comm));
        use(comm, i + 10 * t);
        snprintf(tag, sizeof tag, "weft.test.%d.%d", i % 3, t);
        CHECK_OK(MPI_Comm_create_from_group(world, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
        use(comm, i + 100 * t);
        CHECK_OK(MPI_Comm_idup(own[t], &comm, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        use(comm, 7 * t);
        CHECK_OK(MPI_Comm_split(own[t], me % 2, 0, &comm));
        CHECK_OK(MPI_Barrier(comm));
        if (n > 1) {
            MPI_Comm inter, whole;
            CHECK_OK(MPI_Intercomm_create(comm, 0, everybody, !(me % 2), i * THREADS + t, &inter));
            CHECK_OK(MPI_Intercomm_merge(inter, me % 2, &whole));
            CHECK_OK(MPI_Comm_free(&inter));
            use(whole, i - t);
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &everybody));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[t]));
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&own[t]));
    CHECK_OK(MPI_Comm_free(&everybody));
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
