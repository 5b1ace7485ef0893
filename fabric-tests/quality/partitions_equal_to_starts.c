/* Ints that equal the number of a start to come are data and nothing else: a start whose partitions leave in two parts is received as sent,
 * although such data, sent in one piece, lay where it lies now.
 *
 * Covers: 4.2, 4.2.1, 4.2.2
 * Ranks: 2
 */
#include "check.h"

enum { PARTS = 64, AHEAD = 8, WHOLE = 20, STARTS = 60 };

/* How much later a start comes that the data equal: an implementation may use the same memory again after so many. */
static const int later[] = {1, 2, 4, 8, 16};

static int number(int start, int part, int distance)
{
    return start < WHOLE ? start + distance : 1000 * start + part;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (unsigned p = 0; p < sizeof later / sizeof *later; p++) {
        static int data[PARTS];
        MPI_Request request;
        if (check_rank == 0)
            CHECK_OK(MPI_Psend_init(data, PARTS, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        else
            CHECK_OK(MPI_Precv_init(data, PARTS, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        for (int start = 1; start <= STARTS; start++) {
            int flag;
            CHECK_OK(MPI_Start(&request));
            if (check_rank == 0) {
                for (int i = 0; i < PARTS; i++) {
                    data[i] = number(start, i, later[p]);
                    CHECK_OK(MPI_Pready(i, request));
                    if (start < WHOLE || i != AHEAD - 1) continue;
                    /* Progress sends what is ready; the receiver looks at it before the others are. */
                    CHECK_OK(MPI_Iprobe(1, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                    CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD));
                    CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                }
            } else if (start >= WHOLE) {
                CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                CHECK(!flag);
                CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD));
            }
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (check_rank == 1)
                for (int i = 0; i < PARTS; i++) CHECK_INT(data[i], number(start, i, later[p]));
        }
        CHECK_OK(MPI_Request_free(&request));
    }
    return check_end();
}
