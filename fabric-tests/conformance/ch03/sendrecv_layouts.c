/* The send-receives with datatypes that have gaps: different ones in both halves, one in place, the gaps left alone; and their halves
 * meet plain sends, receives and probes. All four calls, lengths of all protocols.
 *
 * Covers: 3.2.7, 3.7.2, 5.1.11
 * Ranks: 1 2 3
 * [MPICH 5.0 does not fill the status of MPI_Isendrecv.]
 */
#include "check.h"

enum { MOST = 60000 };
static int out[3 * MOST], in[3 * MOST];

static MPI_Datatype every(int step)
{
    MPI_Datatype resized;
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, step * (MPI_Aint)sizeof(int), &resized));
    CHECK_OK(MPI_Type_commit(&resized));
    return resized;
}

static void spread(int *where, int step, int count, int from)
{
    memset(where, 0xFF, 3 * MOST * sizeof(int));
    for (int i = 0; i < count && from >= 0; i++) where[step * i] = 1000000 * from + i;
}

static void look(const int *where, int step, int count, int from)
{
    for (int i = 0; i < step * count; i++) {
        int wanted = i % step ? -1 : 1000000 * from + i / step;
        if (where[i] != wanted) {
            CHECK_FAIL("step %d of %d, element %d: %d, wanted %d", step, count, i, where[i], wanted);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    MPI_Datatype second = every(2), third = every(3);
    static const int counts[] = {0, 1, 10, 1000, 9000, MOST};
    for (int c = 0; c < 6; c++)
        for (int waits = 0; waits < 2; waits++) {
            int count = counts[c];
            MPI_Request request = MPI_REQUEST_NULL;
            MPI_Status status;
            spread(out, 2, count, check_rank);
            spread(in, 3, 0, -1);
            if (waits)
                CHECK_OK(MPI_Sendrecv(out, count, second, next, 1, in, count, third, before, 1, MPI_COMM_WORLD, &status));
            else {
                CHECK_OK(MPI_Isendrecv(out, count, second, next, 1, in, count, third, before, 1, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Wait(&request, &status));
            }
            CHECK_STATUS(status, before, 1, MPI_INT, count);
            look(in, 3, count, before);
            look(out, 2, count, check_rank);
            spread(in, 3, count, check_rank);
            if (waits)
                CHECK_OK(MPI_Sendrecv_replace(in, count, third, next, 2, before, 2, MPI_COMM_WORLD, &status));
            else {
                CHECK_OK(MPI_Isendrecv_replace(in, count, third, next, 2, before, 2, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Wait(&request, &status));
            }
            CHECK_STATUS(status, before, 2, MPI_INT, count);
            look(in, 3, count, before);

            /* A plain partner: its receive is probed for, its send persistent. The wildcards there must find nothing else. */
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
            if (check_rank > 1 || check_size < 2) {
                CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
                continue;
            }
            int peer = 1 - check_rank;
            spread(in, 3, 0, -1);
            if (check_rank == 0) {
                if (waits)
                    CHECK_OK(MPI_Sendrecv(out, count, second, peer, 3, in, count, third, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
                else {
                    CHECK_OK(MPI_Isendrecv(out, count, second, peer, 3, in, count, third, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                                           &request));
                    CHECK_OK(MPI_Wait(&request, &status));
                }
                CHECK_STATUS(status, peer, 4, MPI_INT, count);
            } else {
                CHECK_OK(MPI_Ssend_init(out, count, second, peer, 4, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Start(&request));
                CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
                CHECK_STATUS(status, peer, 3, MPI_INT, count);
                CHECK_OK(MPI_Recv(in, count, third, peer, 3, MPI_COMM_WORLD, &status));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Request_free(&request));
            }
            look(in, 3, count, peer);
            CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        }
    CHECK_OK(MPI_Type_free(&second));
    CHECK_OK(MPI_Type_free(&third));
    return check_end();
}
