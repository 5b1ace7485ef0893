/* Nobody leaves a barrier before everybody has entered; barriers of several communicators and many in a row.
 *
 * Covers: 6.3, 6.1
 * Ranks: 1 2 3 4 5 8
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    /* Before each barrier, one rank is late and has written a message to every other: whoever leaves finds it there. */
    for (int late = 0; late < check_size; late++) {
        int word = 0;
        MPI_Request request;
        CHECK_OK(MPI_Irecv(&word, 1, MPI_INT, late, 1, MPI_COMM_WORLD, &request));
        if (check_rank == late) {
            usleep(20000);
            for (int peer = 0; peer < check_size; peer++) {
                int mark = 1 + peer;
                CHECK_OK(MPI_Send(&mark, 1, MPI_INT, peer, 1, MPI_COMM_WORLD));
            }
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        /* The send was over before the late one entered, so a receive cannot block on anybody's further calls. */
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_INT(word, 1 + check_rank);
    }
    MPI_Comm twin;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    for (int i = 0; i < 500; i++) {
        CHECK_OK(MPI_Barrier(i % 3 ? MPI_COMM_WORLD : twin));
        if (i % 7 == 0) CHECK_OK(MPI_Barrier(MPI_COMM_SELF));
    }
    CHECK_OK(MPI_Comm_free(&twin));
    return check_end();
}
