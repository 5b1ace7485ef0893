/* A program that defines MPI procedures of its own intercepts its calls and reaches the library's by PMPI names; the library
 * itself never calls an interceptable name.
 *
 * Covers: 15.2.1, 15.2.5, 2.6.4
 * Ranks: 1 2 3
 */
#include "check.h"

static int sends, receives, waits, barriers, times, foreign;
static int expected;

int MPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)
{
    sends++;
    if (!expected) foreign++;
    return PMPI_Send(buf, count, datatype, dest, tag, comm);
}

int MPI_Recv(void *buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm, MPI_Status *status)
{
    receives++;
    if (!expected) foreign++;
    return PMPI_Recv(buf, count, datatype, source, tag, comm, status);
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    waits++;
    if (!expected) foreign++;
    return PMPI_Wait(request, status);
}

int MPI_Barrier(MPI_Comm comm)
{
    barriers++;
    if (!expected) foreign++;
    return PMPI_Barrier(comm);
}

double MPI_Wtime(void)
{
    times++;
    return PMPI_Wtime();
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int value = 3, got = 0, sum = 0, all[8];
    MPI_Request request;
    MPI_Comm comm;
    expected = 1;
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(got, 3);
    CHECK_OK(MPI_Isend(&value, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, check_rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK(MPI_Wtime() > 0);
    /* None of these may reach the procedures above. */
    expected = 0;
    CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, check_rank, 3, &got, 1, MPI_INT, check_rank, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_OK(MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD));
    CHECK_OK(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_free(&comm));
    MPI_Finalize();
    CHECK_INT(foreign, 0);
    CHECK_INT(sends, 1);
    CHECK_INT(receives, 1);
    CHECK_INT(waits, 2);
    CHECK_INT(barriers, 1);
    CHECK_INT(times, 1);
    return check_verdict();
}
