/* An error handler whose own calls fail on its communicator calls itself for ever: after a hundred levels the job ends with words that say
 * so, and not by a stack overflow.
 *
 * Covers: 9.5.2
 * Ranks: 1
 * Exit: nonzero
 * Absent: survived
 * Stderr: levels deep
 * Aborts: yes
 */
#include "check.h"

static void again(MPI_Comm *comm, int *code, ...)
{
    (void)code;
    MPI_Send(NULL, 0, MPI_INT, 1000, 0, *comm);
}

int main(int argc, char **argv)
{
    MPI_Errhandler handler;
    check_start(&argc, &argv);
    MPI_Comm_create_errhandler(again, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Send(NULL, 0, MPI_INT, 1000, 0, MPI_COMM_WORLD);
    printf("survived\n");
    return 0;
}
