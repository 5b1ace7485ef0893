/* A process may fork while messages are under way: the child writes over its copies of all buffers, which nobody else sees, and ends by
 * exit, which must not end what the parent has. Large messages (their memory is registered) and small ones arrive whole, before and after,
 * also by two devices.
 *
 * Covers: 2.9
 * Ranks: 3
 * Default: WEFT_TRANSPORT=softroce
 * Env: WEFT_RAILS=2
 */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 1 << 18, ROUNDS = 6 };
static int out[COUNT], in[COUNT];

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int right = (check_rank + 1) % check_size, left = (check_rank + check_size - 1) % check_size;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++) {
            out[i] = check_rank * 1000003 + round * 17 + i;
            in[i] = -1;
        }
        MPI_Request requests[2];
        CHECK_OK(MPI_Irecv(in, COUNT, MPI_INT, left, round, MPI_COMM_WORLD, &requests[0]));
        CHECK_OK(MPI_Isend(out, COUNT, MPI_INT, right, round, MPI_COMM_WORLD, &requests[1]));
        /* Before the device has begun, in the middle, near the end. */
        int done = 0;
        for (int tries = 0; tries < 20 * round && !done; tries++)
            CHECK_OK(MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE));
        fflush(NULL);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (int i = 0; i < COUNT; i++)
                out[i] = in[i] = -7;
            if (round % 2)
                _exit(0);
            exit(0);
        }
        if (round % 3 == 0) {
            int status;
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        if (round % 3 != 0) {
            int status;
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        int wrong = 0, small = round, got = -1;
        for (int i = 0; i < COUNT; i++)
            wrong += in[i] != left * 1000003 + round * 17 + i;
        CHECK_INT(wrong, 0);
        CHECK_OK(MPI_Sendrecv(&small, 1, MPI_INT, right, 99, &got, 1, MPI_INT, left, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(got, round);
    }
    return check_end();
}
