/* The initial error handler is MPI_ERRORS_ARE_FATAL unless something else is asked for: an error after MPI_Finalize ends the program.
 *
 * Covers: 11.2.1, 9.3, 2.8
 * Ranks: 1 2
 * Exit: nonzero
 * Absent: survived
 * Aborts: yes
 */
#include "check.h"

int main(int argc, char **argv)
{
    int n = -1;
    (void)argc, (void)argv, (void)n;
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    printf("survived\n");
    return 0;
}
