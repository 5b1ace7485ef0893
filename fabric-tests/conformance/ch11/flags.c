/* MPI_Initialized and MPI_Finalized before, between and after; MPI_Init takes NULL arguments.
 *
 * Covers: 11.2.1, 11.2.3, 11.4.1
 * Ranks: 1 2
 */
#include "check.h"

int main(void)
{
    int flag = -1;
    CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    flag = -1;
    CHECK_INT(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    CHECK_INT(MPI_Init(NULL, NULL), MPI_SUCCESS);
    check_world();
    CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK(flag);
    CHECK_INT(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    CHECK_INT(MPI_Finalize(), MPI_SUCCESS);
    CHECK_INT(MPI_Initialized(&flag), MPI_SUCCESS);
    CHECK(flag);
    CHECK_INT(MPI_Finalized(&flag), MPI_SUCCESS);
    CHECK(flag);
    return check_verdict();
}
