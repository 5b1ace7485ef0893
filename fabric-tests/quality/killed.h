/* A rank that is killed when the others have come to the same place. Behind a collective alone it could die while others are still in that call, which
 * fails then. */
#ifndef KILLED_H
#define KILLED_H

#include "check.h"
#include <signal.h>

/* Called by all: the victim dies when everybody has called this. */
static inline void die_among_all(int victim)
{
    int here = 1;
    if (check_rank != victim) {
        CHECK_OK(MPI_Send(&here, 1, MPI_INT, victim, 4711, MPI_COMM_WORLD));
        return;
    }
    for (int i = 0; i < check_size; i++)
        if (i != victim) CHECK_OK(MPI_Recv(&here, 1, MPI_INT, i, 4711, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    kill(getpid(), SIGKILL);
}

#endif
