/* Calls that wait for buffered messages under MPI_THREAD_MULTIPLE look, after a second of sleep, after the receivers that they wait
 * for: also where the messages were sent on communicators with lanes of their own, and more of them than the process has requests
 * elsewhere. Flushing, detaching, a request of a flush, and all of that at each level.
 *
 * Covers: 3.6
 * Ranks: 2
 */
#include "check.h"
#include <unistd.h>

enum { LANES = 3, MESSAGES = 8, BYTES = 200000, CALLS = 4 };

int main(int argc, char **argv)
{
    int provided, size;
    void *address;
    MPI_Comm comms[LANES];
    MPI_Request request;
    CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    check_world();
    int room = LANES * MESSAGES * (BYTES + MPI_BSEND_OVERHEAD);
    char *space = check_alloc((size_t)room), *out = check_alloc(BYTES), *in = check_alloc(BYTES);
    for (int i = 0; i < LANES; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    fill(out, BYTES, 3);
    for (int call = 0; call < CALLS; call++) {
        if (check_rank == 0) {
            if (call == 2) CHECK_OK(MPI_Comm_attach_buffer(comms[0], space, room));
            else CHECK_OK(MPI_Buffer_attach(space, room));
            for (int i = 0; i < MESSAGES; i++)
                for (int lane = 0; lane < (call == 2 ? 1 : LANES); lane++)
                    CHECK_OK(MPI_Bsend(out, BYTES, MPI_CHAR, 1, i, comms[lane]));
            if (call == 0) CHECK_OK(MPI_Buffer_flush());
            if (call == 2) CHECK_OK(MPI_Comm_flush_buffer(comms[0]));
            if (call == 3) {
                CHECK_OK(MPI_Buffer_iflush(&request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
            if (call == 2) CHECK_OK(MPI_Comm_detach_buffer(comms[0], &address, &size));
            else CHECK_OK(MPI_Buffer_detach(&address, &size));
            CHECK(address == space);
        } else {
            sleep(2);
            for (int i = 0; i < MESSAGES; i++)
                for (int lane = 0; lane < (call == 2 ? 1 : LANES); lane++) {
                    memset(in, 0, BYTES);
                    CHECK_OK(MPI_Recv(in, BYTES, MPI_CHAR, 0, i, comms[lane], MPI_STATUS_IGNORE));
                    CHECK_FILL(in, BYTES, 3);
                }
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    for (int i = 0; i < LANES; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    free(space);
    free(out);
    free(in);
    return check_end();
}
