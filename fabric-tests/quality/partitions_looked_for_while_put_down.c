/* A receiver that looks for the last partition while all of them are put down in one go finds it, even if the data equal the number of the
 * start.
 *
 * Covers: 4.2, 4.2.1, 4.2.2
 * Ranks: 2
 */
#include "check.h"

enum { PARTS = 64, STARTS = 50000 };

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int data[PARTS];
    MPI_Request request;
    if (check_rank == 0)
        CHECK_OK(MPI_Psend_init(data, PARTS, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    else
        CHECK_OK(MPI_Precv_init(data, PARTS, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int start = 1; start <= STARTS; start++) {
        if (check_rank == 0)
            for (int i = 0; i < PARTS; i++) data[i] = start;
        CHECK_OK(MPI_Start(&request));
        if (check_rank == 0) CHECK_OK(MPI_Pready_range(0, PARTS - 1, request));
        for (int here = check_rank == 0; !here;) CHECK_OK(MPI_Parrived(request, PARTS - 1, &here));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (check_rank == 1)
            for (int i = 0; i < PARTS; i++) CHECK_INT(data[i], start);
    }
    CHECK_OK(MPI_Request_free(&request));
    return check_end();
}
