/* Thousands of communicators made and freed one after another: nothing runs out.
 *
 * Covers: 7.4.2, 7.4.3
 * Ranks: 2 3
 * Timeout: 120
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int i = 0; i < 5000; i++) {
        MPI_Comm twin;
        int sum = 0, one = i;
        if (i % 2)
            CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
        else
            CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &twin));
        CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, twin));
        CHECK_INT(sum, i * check_size);
        CHECK_OK(MPI_Comm_free(&twin));
    }
    return check_end();
}
