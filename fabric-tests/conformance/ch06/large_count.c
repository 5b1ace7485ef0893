/* The MPI_Count forms of the collectives agree with the int forms.
 *
 * Covers: 6.5, 6.6, 6.7, 6.8, 6.9, 6.11, 2.5.8
 * Ranks: 1 2 3 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    enum { C = 11 };
    int n = check_size, me = check_rank, in[8 * C], out[8 * C], root = n - 1;
    MPI_Count counts[8], c = C;
    MPI_Aint displs[8];
    for (int r = 0; r < n; r++) counts[r] = C, displs[r] = r * C;
    for (int i = 0; i < n * C; i++) in[i] = me * 1000 + i;

#define RESET memset(out, 0xFF, sizeof out)
    RESET;
    if (me == root) memcpy(out, in, sizeof out);
    CHECK_OK(MPI_Bcast_c(out, c, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < C; i++) CHECK_INT(out[i], root * 1000 + i);
    RESET;
    CHECK_OK(MPI_Gather_c(in, c, MPI_INT, out, c, MPI_INT, root, MPI_COMM_WORLD));
    if (me == root)
        for (int i = 0; i < n * C; i++) CHECK_INT(out[i], i / C * 1000 + i % C);
    RESET;
    CHECK_OK(MPI_Gatherv_c(in, c, MPI_INT, out, counts, displs, MPI_INT, root, MPI_COMM_WORLD));
    if (me == root)
        for (int i = 0; i < n * C; i++) CHECK_INT(out[i], i / C * 1000 + i % C);
    RESET;
    CHECK_OK(MPI_Scatter_c(in, c, MPI_INT, out, c, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < C; i++) CHECK_INT(out[i], root * 1000 + me * C + i);
    RESET;
    CHECK_OK(MPI_Scatterv_c(in, counts, displs, MPI_INT, out, c, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < C; i++) CHECK_INT(out[i], root * 1000 + me * C + i);
    RESET;
    CHECK_OK(MPI_Allgather_c(in, c, MPI_INT, out, c, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n * C; i++) CHECK_INT(out[i], i / C * 1000 + i % C);
    RESET;
    CHECK_OK(MPI_Allgatherv_c(in, c, MPI_INT, out, counts, displs, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n * C; i++) CHECK_INT(out[i], i / C * 1000 + i % C);
    RESET;
    CHECK_OK(MPI_Alltoall_c(in, c, MPI_INT, out, c, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n * C; i++) CHECK_INT(out[i], i / C * 1000 + me * C + i % C);
    RESET;
    CHECK_OK(MPI_Alltoallv_c(in, counts, displs, MPI_INT, out, counts, displs, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n * C; i++) CHECK_INT(out[i], i / C * 1000 + me * C + i % C);
    RESET;
    CHECK_OK(MPI_Reduce_c(in, out, c, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
    if (me == root)
        for (int i = 0; i < C; i++) CHECK_INT(out[i], n * (n - 1) / 2 * 1000 + n * i);
    RESET;
    CHECK_OK(MPI_Allreduce_c(in, out, c, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < C; i++) CHECK_INT(out[i], n * (n - 1) / 2 * 1000 + n * i);
    RESET;
    CHECK_OK(MPI_Scan_c(in, out, c, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < C; i++) CHECK_INT(out[i], me * (me + 1) / 2 * 1000 + (me + 1) * i);
    return check_end();
}
