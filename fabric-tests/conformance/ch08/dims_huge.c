/* MPI_Dims_create for the largest numbers of nodes an int holds: a prime, a square, many divisors. (MPICH 5.0.2 divides by zero.)
 *
 * Covers: 8.5.2
 * Ranks: 1
 */
#include "check.h"

static void wanted(int nnodes, int ndims, const int *after)
{
    int dims[8] = {0};
    CHECK_OK(MPI_Dims_create(nnodes, ndims, dims));
    for (int i = 0; i < ndims; i++) CHECK_INT(dims[i], after[i]);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    wanted(2147483647, 2, (int[]){2147483647, 1});
    wanted(2147483647, 3, (int[]){2147483647, 1, 1});
    wanted(2147395600, 2, (int[]){46340, 46340});
    wanted(1073741824, 3, (int[]){1024, 1024, 1024});
    wanted(1073741824, 6, (int[]){32, 32, 32, 32, 32, 32});
    wanted(2147117569, 2, (int[]){46337, 46337});
    for (int ndims = 1; ndims <= 8; ndims++) {
        int dims[8] = {0};
        long long product = 1;
        CHECK_OK(MPI_Dims_create(2095133040, ndims, dims));
        for (int i = 0; i < ndims; i++) product *= dims[i];
        CHECK_INT(product, 2095133040);
    }
    return check_end();
}
