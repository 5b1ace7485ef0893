/* The MPI_Count forms of buffered and persistent sends, persistent receives, nonblocking sendrecvs and attached buffers do
 * what the int forms do, and match them; the size of a buffer too large for an int is MPI_UNDEFINED there.
 *
 * Covers: 3.4, 3.6, 3.7.2, 3.9, 2.5.8
 * Ranks: 1 2 3
 * [MPICH 5.0 does not fill the status of MPI_Isendrecv.]
 */
#include "check.h"
#include <sys/mman.h>

#define MOST 40000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size, got = -1;
    static int out[MOST], in[MOST];
    MPI_Count room = 2 * (MOST * sizeof(int) + MPI_BSEND_OVERHEAD), size = 0;
    char *space = check_alloc((size_t)room);
    void *address = NULL;
    MPI_Request send, receive;
    MPI_Status status;
    MPI_Count counts[] = {0, 1, 100, 3000, MOST};
    CHECK_OK(MPI_Buffer_attach_c(space, room));
    for (int c = 0; c < 5; c++) {
        MPI_Count count = counts[c];
        for (int i = 0; i < count; i++) out[i] = i * 3 + check_rank;
#define SEE(tag)                                                                                     \
    do {                                                                                             \
        CHECK_STATUS(status, before, tag, MPI_INT, count);                                           \
        for (int i = 0; i < count; i++)                                                              \
            if (in[i] != i * 3 + before) {                                                           \
                CHECK_FAIL("element %d is %d", i, in[i]);                                            \
                break;                                                                               \
            }                                                                                        \
        memset(in, 0xFF, sizeof in);                                                                 \
    } while (0)
        CHECK_OK(MPI_Bsend_c(out, count, MPI_INT, next, 1, MPI_COMM_WORLD));
        CHECK_OK(MPI_Recv(in, MOST, MPI_INT, before, 1, MPI_COMM_WORLD, &status));
        SEE(1);
        for (int mode = 0; mode < 4; mode++) {
            if (mode == 0) CHECK_OK(MPI_Send_init_c(out, count, MPI_INT, next, 2, MPI_COMM_WORLD, &send));
            if (mode == 1) CHECK_OK(MPI_Bsend_init_c(out, count, MPI_INT, next, 2, MPI_COMM_WORLD, &send));
            if (mode == 2) CHECK_OK(MPI_Ssend_init_c(out, count, MPI_INT, next, 2, MPI_COMM_WORLD, &send));
            if (mode == 3) CHECK_OK(MPI_Rsend_init_c(out, count, MPI_INT, next, 2, MPI_COMM_WORLD, &send));
            if (c % 2)
                CHECK_OK(MPI_Recv_init_c(in, MOST, MPI_INT, before, 2, MPI_COMM_WORLD, &receive));
            else
                CHECK_OK(MPI_Recv_init(in, MOST, MPI_INT, before, 2, MPI_COMM_WORLD, &receive));
            for (int round = 0; round < 3; round++) {
                CHECK_OK(MPI_Buffer_flush());
                CHECK_OK(MPI_Start(&receive));
                CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
                CHECK_OK(MPI_Start(&send));
                CHECK_OK(MPI_Wait(&receive, &status));
                CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
                SEE(2);
            }
            CHECK_OK(MPI_Request_free(&send));
            CHECK_OK(MPI_Request_free(&receive));
        }
        CHECK_OK(MPI_Isendrecv_c(out, count, MPI_INT, next, 3, in, MOST, MPI_INT, before, 3, MPI_COMM_WORLD, &send));
        CHECK_OK(MPI_Wait(&send, &status));
        SEE(3);
        memcpy(in, out, sizeof out);
        CHECK_OK(MPI_Isendrecv_replace_c(in, count, MPI_INT, next, 4, before, 4, MPI_COMM_WORLD, &send));
        CHECK_OK(MPI_Wait(&send, &status));
        SEE(4);
        memcpy(in, out, sizeof out);
        CHECK_OK(MPI_Sendrecv_replace_c(in, count, MPI_INT, next, 5, before, 5, MPI_COMM_WORLD, &status));
        SEE(5);
    }
    CHECK_OK(MPI_Buffer_detach_c(&address, &size));
    CHECK(address == space);
    CHECK_INT(size, room);
    /* Three gigabytes of address space, of which nothing need be touched. */
    room = (MPI_Count)3 << 30;
    char *large = mmap(NULL, (size_t)room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (large != MAP_FAILED) {
        CHECK_OK(MPI_Buffer_attach_c(large, room));
        CHECK_OK(MPI_Bsend(out, MOST, MPI_INT, next, 6, MPI_COMM_WORLD));
        CHECK_OK(MPI_Recv(in, MOST, MPI_INT, before, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Buffer_detach(&address, &got));
        CHECK(address == large);
        CHECK_INT(got, MPI_UNDEFINED);
        CHECK_OK(MPI_Comm_attach_buffer_c(MPI_COMM_WORLD, large, room));
        CHECK_OK(MPI_Comm_detach_buffer_c(MPI_COMM_WORLD, &address, &size));
        CHECK_INT(size, room);
        munmap(large, (size_t)room);
    }
    free(space);
    return check_end();
}
