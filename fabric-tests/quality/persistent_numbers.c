/* Numbers of persistent collectives come round after 524,288; one that is still alive is not taken for a new one: making that fails with an
 * error that says what to do, and everything else goes on.
 *
 * Covers: 6.13
 * Ranks: 2
 * Timeout: 150
 */
#include "check.h"
#include "told.h"

enum { NUMBERS = 524288 };

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Request first, other;
    int value = 0, sum = -1;
    CHECK_OK(MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &first));
    for (int i = 1; i < NUMBERS; i++) {
        CHECK_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &other));
        if (i % 100000 == 0) {
            CHECK_OK(MPI_Start(&other));
            CHECK_OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
        }
        CHECK_OK(MPI_Request_free(&other));
    }
    TOLD(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &other), MPI_ERR_OTHER, "MPI_Barrier_init", "524288", "MPI_Comm_dup");
    value = 4;
    CHECK_OK(MPI_Start(&first));
    CHECK_OK(MPI_Wait(&first, MPI_STATUS_IGNORE));
    CHECK_INT(sum, 4 * check_size);
    CHECK_OK(MPI_Request_free(&first));
    CHECK_OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &other));
    CHECK_OK(MPI_Start(&other));
    CHECK_OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&other));
    return check_end();
}
