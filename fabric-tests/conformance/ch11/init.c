/* The smallest program: MPI_Init with the arguments of main, MPI_Finalize.
 *
 * Covers: 11.2.1, 11.2.2
 * Ranks: 1 2 8 32
 */
#include "check.h"

int main(int argc, char **argv)
{
    CHECK_INT(argc, 1);
    check_start(&argc, &argv);
    CHECK_INT(argc, 1);
    CHECK(check_rank >= 0 && check_rank < check_size);
    return check_end();
}
