/* Partitions of derived types, the type freed after the init calls; gaps of the receive buffer stay as they were.
 *
 * Covers: 4.2.3, 5.1.9
 * Ranks: 1 2
 */
#include "check.h"

#define PARTITIONS 6
#define COUNT 50

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    static int out[PARTITIONS * COUNT * 3], in[PARTITIONS * COUNT * 3];
    MPI_Datatype pair, gapped;
    MPI_Request send, receive;
    /* Two of every three ints. */
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    CHECK_OK(MPI_Type_create_resized(pair, 0, 3 * (MPI_Aint)sizeof(int), &gapped));
    CHECK_OK(MPI_Type_commit(&gapped));
    CHECK_OK(MPI_Psend_init(out, PARTITIONS, COUNT, gapped, next, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(in, PARTITIONS / 2, 2 * COUNT, gapped, before, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    CHECK_OK(MPI_Type_free(&pair));
    CHECK_OK(MPI_Type_free(&gapped));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PARTITIONS * COUNT * 3; i++) {
            out[i] = i + 1000000 * check_rank + round;
            in[i] = -1;
        }
        CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Start(&send));
        for (int i = 0; i < PARTITIONS; i++) CHECK_OK(MPI_Pready((i * 5 + round) % PARTITIONS, send));
        CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        for (int i = 0; i < PARTITIONS * COUNT * 3; i++)
            CHECK_INT(in[i], i % 3 == 2 ? -1 : i + 1000000 * before + round);
    }
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    return check_end();
}
