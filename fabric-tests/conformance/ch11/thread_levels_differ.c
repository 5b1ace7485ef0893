/* The levels of thread support are in order, and the processes of one job may ask for different ones: they exchange messages, make
 * communicators and call collectives as if they had the same.
 *
 * Covers: 11.2.1, 11.6.2
 * Ranks: 2 3 4 5
 */
#include "check.h"

static void use(MPI_Comm comm)
{
    int rank, size, sum = -1;
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    CHECK_OK(MPI_Comm_size(comm, &size));
    for (int turn = 0; turn < 100; turn++)
        for (int shift = 1; shift < size; shift++) {
            int mine = rank * 1000 + turn, other = -1, to = (rank + shift) % size, from = (rank + size - shift) % size;
            MPI_Request request;
            MPI_Status status;
            CHECK_OK(MPI_Irecv(&other, 1, MPI_INT, turn % 2 ? MPI_ANY_SOURCE : from, shift, comm, &request));
            CHECK_OK(MPI_Ssend(&mine, 1, MPI_INT, to, shift, comm));
            CHECK_OK(MPI_Wait(&request, &status));
            CHECK_STATUS(status, from, shift, MPI_INT, 1);
            CHECK_INT(other, from * 1000 + turn);
        }
    CHECK_OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_INT(sum, size * (size - 1) / 2);
}

int main(int argc, char **argv)
{
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE, MPI_THREAD_SERIALIZED, MPI_THREAD_FUNNELED};
    /* Before initialisation the rank is not known; the environment of no launcher is the same as that of another. */
    int wanted = levels[getpid() % 4], provided = -1, asked = -1;
    CHECK(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED
          && MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE);
    CHECK_INT(MPI_Init_thread(&argc, &argv, wanted, &provided), MPI_SUCCESS);
    check_world();
    CHECK(provided >= wanted);
    CHECK_OK(MPI_Query_thread(&asked));
    CHECK_INT(asked, provided);
    use(MPI_COMM_WORLD);
    for (int round = 0; round < 3; round++) {
        MPI_Comm twin, part;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
        use(twin);
        CHECK_OK(MPI_Comm_split(twin, check_rank % 2, -check_rank, &part));
        use(part);
        CHECK_OK(MPI_Comm_free(&twin));
        CHECK_OK(MPI_Comm_free(&part));
    }
    return check_end();
}
