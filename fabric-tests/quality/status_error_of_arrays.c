/* Calls that return several statuses set MPI_ERROR if and only if they return MPI_ERR_IN_STATUS: with success it keeps
 * the value it had. (MPICH 5.0 and Open MPI 4.1 write MPI_SUCCESS there.)
 *
 * Covers: 3.2.5
 * Ranks: 2
 */
#include "check.h"

#define MARK 123456
#define N 3

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = 1 - check_rank, value = check_rank, got[N], flag, outcount, indices[N];
    MPI_Request send[N], receive[N];
    MPI_Status statuses[N];
    for (int n = 1; n <= N; n++)
        for (int how = 0; how < 4; how++) {
            for (int i = 0; i < n; i++) {
                statuses[i].MPI_ERROR = MARK;
                CHECK_OK(MPI_Irecv(&got[i], 1, MPI_INT, peer, i, MPI_COMM_WORLD, &receive[i]));
            }
            for (int i = 0; i < n; i++) CHECK_OK(MPI_Isend(&value, 1, MPI_INT, peer, i, MPI_COMM_WORLD, &send[i]));
            for (int done = 0; done < n;) {
                switch (how) {
                case 0:
                    CHECK_OK(MPI_Waitall(n, receive, statuses));
                    done = n;
                    break;
                case 1:
                    CHECK_OK(MPI_Testall(n, receive, &flag, statuses));
                    done = flag ? n : 0;
                    break;
                case 2:
                    CHECK_OK(MPI_Waitsome(n, receive, &outcount, indices, statuses));
                    done += outcount;
                    break;
                default:
                    CHECK_OK(MPI_Testsome(n, receive, &outcount, indices, statuses));
                    done += outcount;
                }
            }
            for (int i = 0; i < n; i++) CHECK_INT(statuses[i].MPI_ERROR, MARK);
            CHECK_OK(MPI_Waitall(n, send, MPI_STATUSES_IGNORE));
        }
    return check_end();
}
