/* With MPI_WTIME_IS_GLOBAL a time taken before a send is smaller than one taken after its receive elsewhere.
 *
 * Covers: 9.1.2, 9.6
 * Ranks: 2 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    int *global = NULL, flag = 0, backwards = 0;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &global, &flag));
    int next = (check_rank + 1) % check_size, previous = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < 500; i++) {
        double sent = 0, now;
        if (check_rank == 0) {
            now = MPI_Wtime();
            CHECK_OK(MPI_Send(&now, 1, MPI_DOUBLE, next, 1, MPI_COMM_WORLD));
        }
        CHECK_OK(MPI_Recv(&sent, 1, MPI_DOUBLE, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        now = MPI_Wtime();
        backwards += now < sent;
        if (check_rank != 0) CHECK_OK(MPI_Send(&now, 1, MPI_DOUBLE, next, 1, MPI_COMM_WORLD));
    }
    if (flag && *global) CHECK_INT(backwards, 0);
    return check_end();
}
