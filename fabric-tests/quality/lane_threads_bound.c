/* With mpiexec --bind-threads a thread that works with a lane is bound to a core of its own. Not the main thread, nor one that has bound
 * itself, nor one that calls nothing. The core of a thread that has ended is another one's.
 *
 * Covers: 11.6
 * Ranks: 1 2 3
 * Node: one
 * Mpiexec: --threads 2 --bind-threads
 */
#define _GNU_SOURCE
#include "lane_threads.h"

int main(int argc, char **argv)
{
    int provided;
    cpu_set_t whole, now, both;
    struct worker two[2], own = {.own_cpu = -1}, quiet = {.comm = MPI_COMM_NULL, .own_cpu = -1};
    MPI_Comm comms[3];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(sched_getaffinity(0, sizeof whole, &whole), 0);
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    /* The main thread works with lanes, too, and those that it starts afterwards have all cores. */
    talk(MPI_COMM_WORLD);
    talk(comms[0]);
    CHECK_INT(sched_getaffinity(0, sizeof now, &now), 0);
    CHECK(CPU_EQUAL(&now, &whole));
    run(&quiet, 1);
    CHECK(CPU_EQUAL(&quiet.mask, &whole));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 2; i++) two[i] = (struct worker){.comm = comms[(turn + i) % 3], .own_cpu = -1};
        run(two, 2);
        /* The two cores of the rank, one each. On a machine of one core both have that. */
        CPU_OR(&both, &two[0].mask, &two[1].mask);
        CHECK(CPU_EQUAL(&both, &whole));
        CPU_AND(&both, &two[0].mask, &two[1].mask);
        if (CPU_COUNT(&whole) > 1) CHECK_INT(CPU_COUNT(&both), 0);
    }
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &whole)) own.own_cpu = cpu;
    own.comm = comms[1];
    if (CPU_COUNT(&whole) > 1) {
        run(&own, 1);
        CHECK(CPU_COUNT(&own.mask) == 1 && CPU_ISSET(own.own_cpu, &own.mask));
    }
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
