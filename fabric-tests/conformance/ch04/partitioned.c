/* Partitioned sends and receives: partitions ready one by one, by range and by list, in any order, with different numbers of
 * partitions at both ends; arrival of each is seen; restarted.
 *
 * Covers: 4.2, 4.2.1, 4.2.2, 4.2.3
 * Ranks: 1 2 3
 */
#include "check.h"

#define PARTS 12
#define EACH 50

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, next = (me + 1) % n, before = (me + n - 1) % n;
    static int out[PARTS * EACH], in[PARTS * EACH];
    static const int pieces[] = {12, 6, 4, 24};
    for (int p = 0; p < 4; p++) {
        int parts = pieces[p], flag;
        MPI_Request send, receive;
        CHECK_OK(MPI_Psend_init(out, PARTS, EACH, MPI_INT, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        CHECK_OK(MPI_Precv_init(in, parts, PARTS * EACH / parts, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        CHECK_OK(MPI_Parrived(receive, 0, &flag));
        CHECK(flag); /* inactive */
        for (int round = 0; round < 4; round++) {
            for (int i = 0; i < PARTS * EACH; i++) {
                out[i] = me * 100000 + round * 10000 + i;
                in[i] = -1;
            }
            CHECK_OK(MPI_Start(&receive));
            CHECK_OK(MPI_Start(&send));
            static const int list[] = {7, 0, 11};
            CHECK_OK(MPI_Pready_list(3, list, send));
            CHECK_OK(MPI_Pready_range(1, 4, send));
            static const int rest[] = {10, 5, 9, 6, 8};
            for (int i = 0; i < 5; i++) CHECK_OK(MPI_Pready(rest[i], send));
            if (round % 2)
                for (int i = parts - 1; i >= 0; i--)
                    for (flag = 0; !flag;) CHECK_OK(MPI_Parrived(receive, i, &flag));
            CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
            for (int i = 0; i < PARTS * EACH; i++) CHECK_INT(in[i], before * 100000 + round * 10000 + i);
        }
        CHECK_OK(MPI_Request_free(&send));
        CHECK_OK(MPI_Request_free(&receive));
    }
    return check_end();
}
