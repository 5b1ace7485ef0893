/* MPI_Abort on MPI_COMM_SELF ends at least the caller, with a failing exit code of the job.
 *
 * Covers: 11.4.2
 * Ranks: 1
 * Exit: nonzero
 * Absent: survived
 * Aborts: yes
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Abort(MPI_COMM_SELF, 3);
    printf("survived\n");
    return 0;
}
