/* MPI_Abort on MPI_COMM_SELF ends the whole job where the other processes have fatal error handlers: nobody waits for ever for one that is
 * gone.
 *
 * Covers: 11.4.2
 * Ranks: 3
 * Exit: 5
 * Absent: survived
 * Aborts: yes
 */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    if (check_rank == 1) MPI_Abort(MPI_COMM_SELF, 5);
    /* Two that wait for each other. */
    MPI_Recv(NULL, 0, MPI_INT, check_rank == 0 ? 2 : 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("survived\n");
    return 0;
}
