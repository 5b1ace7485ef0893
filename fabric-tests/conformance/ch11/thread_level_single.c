/* MPI_Init_thread asked for MPI_THREAD_SINGLE: what it provides is one of the levels, MPI_Query_thread agrees, and this is
 * the main thread.
 *
 * Covers: 11.2.1, 11.6.2
 * Ranks: 1 2
 */
#include "check.h"
#include "ch11/thread_level.h"

int main(int argc, char **argv)
{
    return try_level(&argc, &argv, MPI_THREAD_SINGLE);
}
