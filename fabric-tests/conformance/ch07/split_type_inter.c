/* MPI_Comm_split_type of an intercommunicator: processes of both sides that share memory make an intercommunicator; where a side has nobody
 * in it there is none. (MPICH 5.0.2 crashes, Open MPI 5.0.11 fails.)
 *
 * Covers: 7.4.2, 7.6
 * Ranks: 2 5
 * Node: one
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm half, inter, part;
    int side = check_rank % 2, flag, local, remote, size;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, 0, &half));
    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 7, &inter));
    /* These tests run on one node. */
    CHECK_OK(MPI_Comm_split_type(inter, MPI_COMM_TYPE_SHARED, -check_rank, MPI_INFO_NULL, &part));
    CHECK(part != MPI_COMM_NULL);
    CHECK_OK(MPI_Comm_test_inter(part, &flag));
    CHECK(flag);
    CHECK_OK(MPI_Comm_size(part, &local));
    CHECK_OK(MPI_Comm_remote_size(part, &remote));
    CHECK_OK(MPI_Comm_size(half, &size));
    CHECK_INT(local, size);
    CHECK_INT(remote, check_size - size);
    CHECK_OK(MPI_Comm_free(&part));
    CHECK_OK(MPI_Comm_split_type(inter, side ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part));
    CHECK(part == MPI_COMM_NULL);
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));
    return check_end();
}
