/* A program that does nothing wrong prints what it prints and nothing else: no warning, no banner, no progress bar.
 *
 * Covers: 2.10.1
 * Ranks: 1 2 10
 * Absent: weft
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int sum = 0, one = 1;
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_INT(sum, check_size);
    return check_end();
}
