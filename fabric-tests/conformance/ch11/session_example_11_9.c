/* Example 11.9: process X derives two communicators from one session, Y and Z from two sessions each. The sessions end without deadlock,
 * with the communicators freed, disconnected or left, and in either order at Y and Z.
 *
 * Covers: 11.3.1
 * Ranks: 3
 * Leaves: yes
 */
#include "check.h"
#include "sessions.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int turn = 0; turn < 6; turn++) {
        MPI_Session first, second;
        MPI_Comm one, two;
        char tag[32];
        CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first));
        second = first;
        if (check_rank != 0) CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
        snprintf(tag, sizeof tag, "one %d", turn);
        one = comm_of_set(first, "mpi://WORLD", tag);
        snprintf(tag, sizeof tag, "two %d", turn);
        two = comm_of_set(second, "mpi://WORLD", tag);
        use_comm(one);
        use_comm(two);
        /* A message that is still on its way when the sessions end. */
        int value = turn;
        MPI_Request request;
        if (check_rank == 0) {
            CHECK_OK(MPI_Isend(&value, 1, MPI_INT, 1, 1, two, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        if (check_rank == 1) CHECK_OK(MPI_Recv(&value, 1, MPI_INT, 0, 1, two, MPI_STATUS_IGNORE));
        if (turn % 3 == 1) CHECK_OK(MPI_Comm_free(&one));
        if (turn % 3 == 2) {
            CHECK_OK(MPI_Comm_disconnect(&one));
            CHECK_OK(MPI_Comm_disconnect(&two));
        }
        if (check_rank == 0) {
            CHECK_OK(MPI_Session_finalize(&first));
        } else if (turn < 3) {
            CHECK_OK(MPI_Session_finalize(&first));
            CHECK_OK(MPI_Session_finalize(&second));
        } else {
            CHECK_OK(MPI_Session_finalize(&second));
            CHECK_OK(MPI_Session_finalize(&first));
        }
    }
    return check_end();
}
