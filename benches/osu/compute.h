/* A computation beside communication: so many steps, however long they take, so that whatever takes the processor from it shows. */
#ifndef COMPUTE_H
#define COMPUTE_H

#include <mpi.h>

static volatile double computed;

/* Computes, without any communication, for that many steps. */
static void compute(long steps)
{
    double value = computed;
    long i;
    for (i = 0; i < steps; i++)
        value = value * 0.999999 + 1e-9;
    computed = value;
}

/* The same at all ranks. */
static double steps_per_second;

static void calibrate(void)
{
    double began, best = 0;
    int turn;
    for (turn = 0; turn < 5; turn++) {
        double rate;
        began = MPI_Wtime();
        compute(1000000);
        rate = 1000000 / (MPI_Wtime() - began);
        best = rate > best ? rate : best;
    }
    MPI_Allreduce(&best, &steps_per_second, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

#endif
