/* Two ranks that think they have a core each are put on one, and a message goes to and fro. Rank 0 says how many microseconds of its processor a round trip
 * took in the middle one of seven rows: whoever waits must soon let the other have the core, since nothing comes before that. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { ROWS = 7, TRIPS = 50 };

static double busy(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rank, word = 7;
    double each[ROWS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    cpu_set_t allowed, one;
    sched_getaffinity(0, sizeof allowed, &allowed);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, &allowed)) {
            CPU_SET(core, &one);
            break;
        }
    }
    sched_setaffinity(0, sizeof one, &one);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int row = 0; row < ROWS; row++) {
        double before = busy();
        for (int trip = 0; trip < TRIPS; trip++) {
            if (rank == 0) MPI_Send(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(&word, 1, MPI_INT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1) MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        }
        each[row] = (busy() - before) / TRIPS;
    }
    qsort(each, ROWS, sizeof *each, compare);
    if (rank == 0) printf("a round trip takes %.0f us of the processor\n", each[ROWS / 2]);
    MPI_Finalize();
    return 0;
}
