/* Partitions without bytes arrive as any others: not before their sender has marked them, though there is nothing to wait for.
 *
 * Covers: 4.2.1, 4.2.2
 * Ranks: 1 2 3
 */
#include "check.h"

enum { PARTITIONS = 3, ROUNDS = 3 };

int main(int argc, char **argv)
{
    MPI_Request send, receive;
    char nothing[1];
    int flag;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Psend_init(nothing, PARTITIONS, 0, MPI_INT, (check_rank + 1) % check_size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(nothing, PARTITIONS, 0, MPI_INT, (check_rank + check_size - 1) % check_size, 0, MPI_COMM_WORLD,
                            MPI_INFO_NULL, &receive));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Start(&receive));
        for (int i = 0; i < PARTITIONS; i++) {
            CHECK_OK(MPI_Parrived(receive, i, &flag));
            CHECK(!flag);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK_OK(MPI_Start(&send));
        for (int i = 0; i < PARTITIONS; i++) CHECK_OK(MPI_Pready(i, send));
        for (int i = 0; i < PARTITIONS; i++) {
            for (flag = 0; !flag;) CHECK_OK(MPI_Parrived(receive, i, &flag));
        }
        CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Request_free(&receive));
    CHECK_OK(MPI_Request_free(&send));
    return check_end();
}
