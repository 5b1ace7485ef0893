/* What a call has sent, or answered, leaves before the program computes: the other goes on meanwhile, without a further call here. Whether
 * it does is told by memory that both share, beside MPI.
 *
 * Covers: 2.9, 3.5, 3.7.4
 * Ranks: 2
 * Node: one
 * Timeout: 120
 * Default: WEFT_TRANSPORT=softroce
 */
#define _GNU_SOURCE
#include "computes.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    share();
    CHECK_INT(steps_in(MPI_COMM_WORLD, 0), 10);
    return check_end();
}
