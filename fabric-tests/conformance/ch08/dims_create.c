/* MPI_Dims_create: the table of example 8.1; given entries stay and the product is right; entries set are in nonincreasing
 * order, and where all readings of "as close as possible" agree, those; impossible requests are errors.
 *
 * Covers: 8.5.2
 * Ranks: 1 2
 */
#include "check.h"

static void wanted(int nnodes, int ndims, const int *before, const int *after)
{
    int dims[8];
    memcpy(dims, before, sizeof(int) * (size_t)ndims);
    CHECK_OK(MPI_Dims_create(nnodes, ndims, dims));
    for (int i = 0; i < ndims; i++)
        if (dims[i] != after[i]) CHECK_FAIL("%d nodes, dims[%d]: got %d, wanted %d", nnodes, i, dims[i], after[i]);
}

static void refused(int nnodes, int ndims, const int *before)
{
    int dims[8];
    memcpy(dims, before, sizeof(int) * (size_t)(ndims > 0 ? ndims : 0));
    if (MPI_Dims_create(nnodes, ndims, dims) == MPI_SUCCESS)
        CHECK_FAIL("%d nodes in %d dimensions (first %d) must be an error", nnodes, ndims, ndims > 0 ? before[0] : 0);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    /* Example 8.1. */
    wanted(6, 2, (int[]){0, 0}, (int[]){3, 2});
    wanted(7, 2, (int[]){0, 0}, (int[]){7, 1});
    wanted(6, 3, (int[]){0, 3, 0}, (int[]){2, 3, 1});
    refused(7, 3, (int[]){0, 3, 0});

    wanted(1, 3, (int[]){0, 0, 0}, (int[]){1, 1, 1});
    wanted(16, 2, (int[]){0, 0}, (int[]){4, 4});
    wanted(12, 2, (int[]){0, 0}, (int[]){4, 3});
    wanted(8, 3, (int[]){0, 0, 0}, (int[]){2, 2, 2});
    wanted(30, 3, (int[]){0, 0, 0}, (int[]){5, 3, 2});
    wanted(36, 2, (int[]){0, 0}, (int[]){6, 6});
    wanted(36, 3, (int[]){0, 0, 0}, (int[]){4, 3, 3});
    wanted(64, 6, (int[]){0, 0, 0, 0, 0, 0}, (int[]){2, 2, 2, 2, 2, 2});
    wanted(2310, 5, (int[]){0, 0, 0, 0, 0}, (int[]){11, 7, 5, 3, 2});
    wanted(24, 3, (int[]){2, 3, 4}, (int[]){2, 3, 4});
    wanted(24, 4, (int[]){0, 2, 0, 1}, (int[]){4, 2, 3, 1});
    CHECK_OK(MPI_Dims_create(1, 0, NULL));

    for (int nnodes = 1; nnodes <= 200; nnodes++)
        for (int ndims = 1; ndims <= 5; ndims++)
            for (int given = -1; given < ndims; given++) {
                int dims[5] = {0, 0, 0, 0, 0}, product = 1, last = 2147483647;
                int fixed = nnodes % 3 == 0 ? 3 : nnodes % 2 == 0 ? 2 : 1;
                if (given >= 0) dims[given] = fixed;
                if (given >= 0 && ndims == 1 && fixed != nnodes) continue;
                CHECK_OK(MPI_Dims_create(nnodes, ndims, dims));
                for (int i = 0; i < ndims; i++) {
                    product *= dims[i];
                    if (i == given) {
                        CHECK_INT(dims[i], fixed);
                        continue;
                    }
                    CHECK(dims[i] >= 1 && dims[i] <= last);
                    last = dims[i];
                }
                CHECK_INT(product, nnodes);
            }

    refused(12, 2, (int[]){-1, 0});
    refused(12, 2, (int[]){0, -3});
    refused(12, 2, (int[]){5, 0});
    refused(12, 2, (int[]){24, 0});
    return check_end();
}
