/* What only begins something returns whatever the others do: rank 0 begins sends of every mode and length, receives, persistent and
 * partitioned ones, while nobody else is in a call of MPI; the others wait outside, for a file, until it says that it has begun them all.
 * A buffered send is complete then, too.
 *
 * Covers: 2.4.2, 3.4, 3.7.2, 3.9, 4.2.1
 * Ranks: 2 3
 * Node: one
 */
#define _GNU_SOURCE
#include "check.h"
#include "ch06/outside.h"

enum { LENGTHS = 5, KINDS = 7, BIG = 3000000 };
static const int lengths[LENGTHS] = {0, 8, 5000, 70000, BIG};

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int count = 0, size = 2 * (BIG + 5000000 + 10 * MPI_BSEND_OVERHEAD);
    char *space = check_alloc((size_t)size), *out = check_alloc(BIG), *address;
    char *in[LENGTHS * KINDS];
    static MPI_Request requests[8 * LENGTHS * KINDS];
    fill(out, BIG, 3);
    CHECK_OK(MPI_Buffer_attach(space, size));
    outside_start("starts_are_local");
    if (check_rank == 0) {
        for (int peer = 1; peer < check_size; peer++)
            for (int l = 0; l < LENGTHS; l++) {
                int length = lengths[l];
#define TO(kind) out, length, MPI_CHAR, peer, l * KINDS + kind, MPI_COMM_WORLD
                CHECK_OK(MPI_Isend(TO(0), &requests[count++]));
                CHECK_OK(MPI_Issend(TO(1), &requests[count++]));
                if (peer == 1) CHECK_OK(MPI_Bsend(TO(2)));
                else CHECK_OK(MPI_Isend(TO(2), &requests[count++]));
                CHECK_OK(MPI_Send_init(TO(3), &requests[count]));
                CHECK_OK(MPI_Start(&requests[count++]));
                CHECK_OK(MPI_Ssend_init(TO(4), &requests[count]));
                CHECK_OK(MPI_Start(&requests[count++]));
                CHECK_OK(MPI_Psend_init(out, 2, length / 2, MPI_CHAR, peer, l * KINDS + 5, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[count]));
                CHECK_OK(MPI_Start(&requests[count]));
                CHECK_OK(MPI_Pready_range(0, 1, requests[count++]));
                CHECK_OK(MPI_Irecv(NULL, 0, MPI_CHAR, peer, l * KINDS + 6, MPI_COMM_WORLD, &requests[count++]));
            }
        outside_say();
    } else {
        outside_wait();
        for (int l = LENGTHS - 1; l >= 0; l--)
            for (int kind = KINDS - 1; kind >= 0; kind--) {
                int length = lengths[l], tag = l * KINDS + kind;
                MPI_Status status;
                if (kind == 6) {
                    CHECK_OK(MPI_Send(NULL, 0, MPI_CHAR, 0, tag, MPI_COMM_WORLD));
                    continue;
                }
                in[tag] = check_alloc((size_t)length);
                memset(in[tag], 0, (size_t)length);
                if (kind == 5) {
                    CHECK_OK(MPI_Precv_init(in[tag], 1, length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
                    CHECK_OK(MPI_Start(&requests[0]));
                    CHECK_OK(MPI_Wait(&requests[0], &status));
                    CHECK_OK(MPI_Request_free(&requests[0]));
                } else {
                    CHECK_OK(MPI_Recv(in[tag], length, MPI_CHAR, 0, tag, MPI_COMM_WORLD, &status));
                    CHECK_STATUS(status, 0, tag, MPI_CHAR, length);
                }
                CHECK_FILL(in[tag], length, 3);
                free(in[tag]);
            }
    }
    CHECK_OK(MPI_Waitall(count, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL) CHECK_OK(MPI_Request_free(&requests[i]));
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    outside_end();
    free(space);
    free(out);
    return check_end();
}
