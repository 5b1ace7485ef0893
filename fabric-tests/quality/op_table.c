/* As ch06/op_table, and besides: sums and products of signed integers wrap; operations on types that the table of section 6.9.2 does not
 * have for them are refused with MPI_ERR_OP, in blocking and nonblocking calls, and leave nothing behind.
 *
 * Covers: 6.9.2, 6.9.3, 6.9.4, 6.9.7
 * Ranks: 1 2 3
 */
#define STRICT 1
#include "../conformance/ch06/op_table.c"
