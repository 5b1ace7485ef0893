/* Ranks of sends, receives and probes on an intercommunicator are those of the remote group, whatever its size: its last rank is
 * right and the next one is wrong, also where the local group has it.
 *
 * Covers: 3.2.3, 3.2.4, 3.8.1
 * Ranks: 3 4 5
 */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Comm half, inter;
    MPI_Status status;
    MPI_Request request;
    int remote, local, mine, flag, value, is_lone;
    check_start(&argc, &argv);
    /* One rank on the one side, the rest on the other. */
    is_lone = check_rank == 0;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, is_lone, 0, &half));
    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_lone ? 1 : 0, 3, &inter));
    CHECK_OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_OK(MPI_Comm_size(inter, &local));
    CHECK_OK(MPI_Comm_rank(inter, &mine));
    CHECK_INT(remote, is_lone ? check_size - 1 : 1);
    CHECK_CLASS(MPI_Send(&mine, 1, MPI_INT, remote, 0, inter), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Isend(&mine, 1, MPI_INT, -7, 0, inter, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Recv(&value, 1, MPI_INT, remote, 0, inter, &status), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Iprobe(remote, 0, inter, &flag, &status), MPI_ERR_RANK);
    if (is_lone) {
        for (int r = remote - 1; r >= 0; r--) {
            CHECK_OK(MPI_Send(&r, 1, MPI_INT, r, 5, inter));
            CHECK_OK(MPI_Probe(r, 6, inter, &status));
            CHECK_STATUS(status, r, 6, MPI_INT, 1);
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, r, 6, inter, &status));
            CHECK_INT(value, r);
        }
        for (int r = 0; r < remote; r++) {
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 7, inter, &status));
            CHECK_INT(status.MPI_SOURCE, value);
        }
    } else {
        CHECK_OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, &status));
        CHECK_STATUS(status, 0, 5, MPI_INT, 1);
        CHECK_INT(value, mine);
        CHECK_OK(MPI_Send(&mine, 1, MPI_INT, 0, 6, inter));
        CHECK_OK(MPI_Send(&mine, 1, MPI_INT, 0, 7, inter));
    }
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));
    return check_end();
}
