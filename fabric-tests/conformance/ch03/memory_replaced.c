/* A buffer whose request has completed is the program's again: it gives the memory back and has other pages at the same address for the next message, at
 * once. Whatever an implementation keeps about memory (registrations with a device, pages that it has looked at) must not mean the old pages.
 *
 * Covers: 3.4, 3.7.3, 3.9
 * Ranks: 2
 */
#include "check.h"
#include <sys/mman.h>

enum { TURNS = 12 };

/* Other pages at the same address; the first time any. */
static unsigned char *renew(unsigned char *place, size_t length)
{
    int fixed = place ? MAP_FIXED : 0;
    void *pages = mmap(place, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    CHECK(pages != MAP_FAILED);
    return pages;
}

static void send(unsigned char *out, int length, int turn)
{
    MPI_Request request;
    switch (turn % 4) {
    case 0: CHECK_OK(MPI_Send(out, length, MPI_BYTE, 1, turn, MPI_COMM_WORLD)); break;
    case 1: CHECK_OK(MPI_Ssend(out, length, MPI_BYTE, 1, turn, MPI_COMM_WORLD)); break;
    case 2:
        CHECK_OK(MPI_Isend(out, length, MPI_BYTE, 1, turn, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 3:
        CHECK_OK(MPI_Send_init(out, length, MPI_BYTE, 1, turn, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Start(&request));
        for (int flag = 0; !flag;)
            CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&request));
        break;
    }
}

static void receive(unsigned char *in, int length, int turn)
{
    MPI_Request request;
    switch (turn / 2 % 3) {
    case 0: CHECK_OK(MPI_Recv(in, length, MPI_BYTE, 0, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE)); break;
    case 1:
        CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, 0, turn, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        break;
    case 2:
        CHECK_OK(MPI_Recv_init(in, length, MPI_BYTE, 0, turn, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Start(&request));
        for (int flag = 0; !flag;)
            CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&request));
        break;
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {8, 3000, 70000, 400000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        int length = lengths[l];
        unsigned char *bytes = NULL;
        for (int turn = 0; turn < TURNS; turn++) {
            bytes = renew(bytes, (size_t)length);
            if (check_rank == 0) {
                fill(bytes, (size_t)length, (unsigned)turn);
                send(bytes, length, turn);
            } else {
                receive(bytes, length, turn);
                CHECK_FILL(bytes, length, turn);
            }
        }
        /* Several under way from the same memory, and then from other pages. */
        for (int turn = 0; turn < TURNS; turn++) {
            MPI_Request requests[3];
            bytes = renew(bytes, (size_t)length);
            if (check_rank == 0) {
                fill(bytes, (size_t)length, (unsigned)(100 + turn));
                for (int i = 0; i < 3; i++)
                    CHECK_OK(MPI_Isend(bytes, length, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]));
                CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
            } else {
                for (int i = 0; i < 3; i++) {
                    int tag = (i + turn) % 3;
                    bytes = renew(bytes, (size_t)length);
                    CHECK_OK(MPI_Recv(bytes, length, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    CHECK_FILL(bytes, length, 100 + turn);
                }
            }
        }
        /* A send that ends while its process waits for something else: the call that completes it finds that it has. */
        for (int turn = 0; turn < TURNS; turn++) {
            MPI_Request request;
            bytes = renew(bytes, (size_t)length);
            if (check_rank == 0) {
                fill(bytes, (size_t)length, (unsigned)(200 + turn));
                CHECK_OK(MPI_Isend(bytes, length, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                if (turn % 2) {
                    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                } else {
                    CHECK_OK(MPI_Request_free(&request));
                }
            } else {
                CHECK_OK(MPI_Recv(bytes, length, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_FILL(bytes, length, 200 + turn);
                CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD));
            }
        }
        CHECK(munmap(bytes, (size_t)length) == 0);
    }
    return check_end();
}
