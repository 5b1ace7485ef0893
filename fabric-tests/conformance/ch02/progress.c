/* A process that is blocked in one call makes progress for all its communication: other communicators, sends of all
 * sizes, receives, in waits, probes, tests and collectives.
 *
 * Covers: 2.9, 2.4.2, 3.5
 * Ranks: 2 3
 */
#include "check.h"

#define BIG 3000000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm other;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    unsigned char *out = check_alloc(BIG), *in = check_alloc(BIG);
    fill(out, BIG, 3);
    for (int how = 0; how < 6; how++) {
        MPI_Request send, receive;
        int flag = 0;
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) {
            /* A large message on one communicator; then blocked on another until its receiver has all of it. */
            CHECK_OK(MPI_Isend(out, BIG, MPI_BYTE, 1, 1, other, &send));
            switch (how) {
            case 0: CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); break;
            case 1:
                CHECK_OK(MPI_Irecv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, &receive));
                CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
                break;
            case 2:
                CHECK_OK(MPI_Probe(1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                break;
            case 3:
                while (!flag) CHECK_OK(MPI_Iprobe(1, 2, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                break;
            case 4:
                CHECK_OK(MPI_Irecv(NULL, 0, MPI_INT, 1, 2, MPI_COMM_WORLD, &receive));
                while (!flag) CHECK_OK(MPI_Test(&receive, &flag, MPI_STATUS_IGNORE));
                break;
            default: CHECK_OK(MPI_Ssend(NULL, 0, MPI_INT, 1, 3, MPI_COMM_WORLD));
            }
            CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        } else if (check_rank == 1) {
            memset(in, 0, BIG);
            usleep(10000);
            CHECK_OK(MPI_Recv(in, BIG, MPI_BYTE, 0, 1, other, MPI_STATUS_IGNORE));
            CHECK_FILL(in, BIG, 3);
            if (how < 5)
                CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 2, MPI_COMM_WORLD));
            else
                CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
    }
    /* Blocked in a collective that waits for the receiver of the large message. */
    MPI_Request send;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 0) CHECK_OK(MPI_Isend(out, BIG, MPI_BYTE, 1, 4, MPI_COMM_WORLD, &send));
    if (check_rank == 1) CHECK_OK(MPI_Recv(in, BIG, MPI_BYTE, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Barrier(other));
    if (check_rank == 0) CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_free(&other));
    free(out);
    free(in);
    return check_end();
}
