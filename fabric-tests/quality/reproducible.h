/* Reductions of data whose sums show the order of combination, compared with the one tree over the ranks. */
#ifndef REPRODUCIBLE_H
#define REPRODUCIBLE_H
#include "check.h"

enum { LONG = 40000 };

static double operand(int rank, int i)
{
    double x = 1.0 / (3 + i + rank * 17);
    return (i + rank) % 3 ? x : x * 1e12 * (rank % 2 ? 1 : -1);
}

/* The tree: rank r combines what r + 1, r + 2, r + 4, ... hold. */
static inline double wanted(int first, int ranks, int i)
{
    double sum = operand(first, i);
    for (int step = 1; step < ranks; step *= 2) sum += wanted(first + step, step < ranks - step ? step : ranks - step, i);
    return sum;
}

static inline void check_on(MPI_Comm comm)
{
    static double in[LONG * 8], out[LONG];
    int me, n;
    MPI_Request request;
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_size(comm, &n));
    for (int i = 0; i < LONG; i++) in[i] = operand(me, i);
    const int counts[] = {1, 3, 700, LONG};
    for (int c = 0; c < 4; c++)
        for (int form = 0; form < 4; form++) {
            int count = counts[c], root = (c + form) % n;
            memset(out, 0, sizeof out);
            if (form == 0) CHECK_OK(MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm));
            else if (form == 1) CHECK_OK(MPI_Reduce(in, out, count, MPI_DOUBLE, MPI_SUM, root, comm));
            else if (form == 2) {
                CHECK_OK(MPI_Iallreduce(in, out, count, MPI_DOUBLE, MPI_SUM, comm, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            } else {
                CHECK_OK(MPI_Allreduce_init(in, out, count, MPI_DOUBLE, MPI_SUM, comm, MPI_INFO_NULL, &request));
                CHECK_OK(MPI_Start(&request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Request_free(&request));
            }
            for (int i = 0; i < count && (form != 1 || me == root); i += 1 + i / 8) {
                double right = wanted(0, n, i);
                CHECK(memcmp(&out[i], &right, sizeof right) == 0);
            }
        }
    CHECK_OK(MPI_Reduce_scatter_block(in, out, 10, MPI_DOUBLE, MPI_SUM, comm));
    for (int i = 0; i < 10; i++) {
        double right = wanted(0, n, me * 10 + i);
        CHECK(memcmp(&out[i], &right, sizeof right) == 0);
    }
}

#endif
