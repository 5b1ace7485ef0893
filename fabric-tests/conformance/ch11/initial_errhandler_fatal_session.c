/* The initial error handler is MPI_ERRORS_ARE_FATAL unless something else is asked for: an error without an object in a program with a session alone ends the program.
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
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Session session;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Type_free(&type);
    printf("survived\n");
    return 0;
}
