/* Rank 0 waits a second for a message, twice, and says how much of that its processor was busy, in percent, and how often it slept; a rank that
 * sleeps well needs next to nothing, and seldom wakes. What it waits for comes after traffic, when everything that is left over from that has been seen to. */
#include <mpi.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static long sleeps(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
}

static double busy(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
    int rank, word = 7;
    double most = 0;
    long often = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 100; i++) MPI_Barrier(MPI_COMM_WORLD);
        double before = busy(), began = MPI_Wtime();
        long slept = sleeps();
        if (rank == 1) {
            sleep(1);
            MPI_Send(&word, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
        } else if (rank == 0) {
            MPI_Recv(&word, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            double share = 100 * (busy() - before) / (MPI_Wtime() - began);
            if (share > most) most = share;
            if (sleeps() - slept > often) often = sleeps() - slept;
        }
    }
    if (rank == 0) printf("busy for %.0f %%, slept %ld times\n", most, often);
    MPI_Finalize();
    return 0;
}
