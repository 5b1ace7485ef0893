/* WEFT_REPRODUCIBLE: MPI_Reduce to every root, MPI_Allreduce, MPI_Reduce_scatter_block and their other
 * forms give the same bits for the same operands, also with ranks placed in another order underneath and with other lengths.
 *
 * Covers: 6.9.1
 * Ranks: 2 3 5 8
 * Env: WEFT_REPRODUCIBLE=yes
 * Timeout: 60
 */
#include "reproducible.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm reversed;
    check_on(MPI_COMM_WORLD);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reversed));
    check_on(reversed);
    CHECK_OK(MPI_Comm_free(&reversed));
    return check_end();
}
