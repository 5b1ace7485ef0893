/* The init calls take an info object: keys that nobody knows change nothing, the two sides may give different ones, and the object
 * is the program's again as soon as the call returns.
 *
 * Covers: 4.2.1, 10
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    enum { PARTS = 6, EACH = 50 };
    check_start(&argc, &argv);
    int other = check_size - 1 - check_rank;
    int out[PARTS * EACH], in[PARTS * EACH];
    MPI_Request requests[2];
    MPI_Info infos[2];
    for (int i = 0; i < 2; i++) {
        CHECK_OK(MPI_Info_create(&infos[i]));
        CHECK_OK(MPI_Info_set(infos[i], "nobody knows this key", i ? "receive" : "send"));
    }
    if (check_rank) CHECK_OK(MPI_Info_set(infos[0], "nor this one", "1"));
    CHECK_OK(MPI_Psend_init(out, PARTS, EACH, MPI_INT, other, 4, MPI_COMM_WORLD, infos[0], &requests[0]));
    CHECK_OK(MPI_Precv_init(in, PARTS, EACH, MPI_INT, other, 4, MPI_COMM_WORLD, infos[1], &requests[1]));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(MPI_Info_set(infos[i], "nobody knows this key", "changed"));
        CHECK_OK(MPI_Info_free(&infos[i]));
    }
    for (int round = 0; round < 3; round++) {
        CHECK_OK(MPI_Startall(2, requests));
        for (int i = 0; i < PARTS * EACH; i++) out[i] = 10000 * check_rank + 1000 * round + i;
        CHECK_OK(MPI_Pready_range(0, PARTS - 1, requests[0]));
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        for (int i = 0; i < PARTS * EACH; i++) CHECK_INT(in[i], 10000 * other + 1000 * round + i);
    }
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Request_free(&requests[i]));
    return check_end();
}
