/* Threads are the program's: without --bind-threads none is bound, though the launcher knows a core for each lane.
 *
 * Covers: 11.6
 * Ranks: 1 2
 * Node: one
 * Mpiexec: --threads 2
 */
#define _GNU_SOURCE
#include "lane_threads.h"

int main(int argc, char **argv)
{
    int provided;
    cpu_set_t whole;
    struct worker workers[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(sched_getaffinity(0, sizeof whole, &whole), 0);
    for (int i = 0; i < 2; i++) {
        workers[i].own_cpu = -1;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm));
    }
    run(workers, 2);
    for (int i = 0; i < 2; i++) {
        CHECK(CPU_EQUAL(&workers[i].mask, &whole));
        CHECK_OK(MPI_Comm_free(&workers[i].comm));
    }
    return check_end();
}
