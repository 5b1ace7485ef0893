/* MPI_Allreduce of floating-point numbers whose sum depends on the order gives bitwise the same on all ranks.
 *
 * Covers: 6.9.6, 6.9.1
 * Ranks: 2 3 5 8
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int count = 1; count <= 100000; count = count * 7 + 2) {
        double *in = check_alloc(sizeof(double) * (size_t)count), *out = check_alloc(sizeof(double) * (size_t)count);
        double *first = check_alloc(sizeof(double) * (size_t)count), *again = check_alloc(sizeof(double) * (size_t)count);
        for (int i = 0; i < count; i++) {
            double x = 1.0 / (3 + i + check_rank * 17);
            in[i] = (i + check_rank) % 3 ? x : x * 1e12 * (check_rank % 2 ? 1 : -1);
        }
        CHECK_OK(MPI_Allreduce(in, out, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        memcpy(first, out, sizeof(double) * (size_t)count);
        CHECK_OK(MPI_Bcast(first, count, MPI_DOUBLE, 0, MPI_COMM_WORLD));
        CHECK(memcmp(first, out, sizeof(double) * (size_t)count) == 0);
        CHECK_OK(MPI_Allreduce(in, again, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        CHECK(memcmp(again, out, sizeof(double) * (size_t)count) == 0);
        free(in);
        free(out);
        free(first);
        free(again);
    }
    return check_end();
}
