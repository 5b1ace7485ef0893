/* A receive touches only the bytes of its type map: whole, cut off, shorter than asked for, at every size from one packet
 * to a stream; the elements that came are counted, parts of structures too; types between any two layouts.
 *
 * MPICH 5.0.2 answers MPI_ERR_TYPE to packed data that ends inside a structure, and delivers nothing of a truncated message
 * (here its first bytes are promised); the rest passes there.
 *
 * Covers: 5.1.11, 5.1.9, 3.2.4, 3.2.5
 * Ranks: 1 2
 */
#include "check.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

struct piece {
    short s;
    double d;
    char c[3];
};
enum { BASICS = 5, BYTES = 13 };

static MPI_Datatype structure(void)
{
    MPI_Datatype types[3] = {MPI_SHORT, MPI_DOUBLE, MPI_CHAR}, bare, type;
    int lengths[3] = {1, 1, 3};
    MPI_Aint places[3] = {offsetof(struct piece, s), offsetof(struct piece, d), offsetof(struct piece, c)};
    CHECK_OK(MPI_Type_create_struct(3, lengths, places, types, &bare));
    CHECK_OK(MPI_Type_create_resized(bare, 0, sizeof(struct piece), &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_free(&bare));
    return type;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = check_size == 1 ? 0 : 1 - check_rank;
    MPI_Datatype type = structure();
    static const int counts[] = {1, 2, 7, 100, 629, 630, 631, 3000, 6000, 40000, 100000};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        int n = counts[k];
        struct piece *out = malloc((size_t)n * sizeof *out), *in = malloc((size_t)(n + 1) * sizeof *in);
        char *flat = malloc((size_t)n * BYTES), *come = malloc((size_t)n * BYTES);
        fill(out, (size_t)n * sizeof *out, 11 + (unsigned)peer);
        fill(flat, (size_t)n * BYTES, 0);
        int position = 0;
        CHECK_OK(MPI_Pack(out, n, type, flat, n * BYTES, &position, MPI_COMM_WORLD));
        CHECK_INT(position, n * BYTES);
        fill(out, (size_t)n * sizeof *out, 11 + (unsigned)check_rank);

        /* How much is sent (in basic elements) and how many structures there is room for. */
        int ways[4][2] = {{n * BASICS, n}, {n * BASICS, n - n / 3}, {n * BASICS - 3, n}, {(n - n / 2) * BASICS, n}};
        for (int w = 0; w < 4; w++) {
            int whole = ways[w][0] / BASICS, parts = ways[w][0] % BASICS, room = ways[w][1];
            /* What is left of the last structure: short and double. */
            int sent = whole * BYTES + (parts == 2 ? 10 : 0);
            int kept = sent < room * BYTES ? sent : room * BYTES;
            MPI_Status status;
            MPI_Request requests[2];
            memset(in, 0xA5, (size_t)(n + 1) * sizeof *in);
            CHECK_OK(MPI_Irecv(in, room, type, peer, 1, MPI_COMM_WORLD, &requests[0]));
            if (parts == 0) CHECK_OK(MPI_Isend(out, whole, type, peer, 1, MPI_COMM_WORLD, &requests[1]));
            else {
                int p = 0;
                CHECK_OK(MPI_Pack(out, n, type, come, n * BYTES, &p, MPI_COMM_WORLD));
                CHECK_OK(MPI_Isend(come, sent, MPI_PACKED, peer, 1, MPI_COMM_WORLD, &requests[1]));
            }
            int code = MPI_Wait(&requests[0], &status);
            CHECK_INT(check_class_of(code), sent > room * BYTES ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
            CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
            if (sent > room * BYTES) goto bytes; /* what a status of a truncated message counts is not said */
            int elements, count, bytes = kept;
            CHECK_OK(MPI_Get_elements(&status, type, &elements));
            CHECK_OK(MPI_Get_count(&status, type, &count));
            CHECK_INT(count, bytes % BYTES ? MPI_UNDEFINED : bytes / BYTES);
            CHECK_INT(elements, bytes / BYTES * BASICS + (bytes % BYTES == 10 ? 2 : 0));
            MPI_Count large;
            CHECK_OK(MPI_Get_elements_c(&status, type, &large));
            CHECK_INT(large, elements);
            CHECK_OK(MPI_Get_elements_x(&status, type, &large));
            CHECK_INT(large, elements);
        bytes:;
            /* Byte by byte: data where the type map says so and came, else untouched. */
            const unsigned char *got = (const unsigned char *)in;
            static const int offsets[BYTES] = {0, 1, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
            size_t next = 0;
            for (size_t at = 0; at < (size_t)(n + 1) * sizeof *in; at++) {
                size_t element = next / BYTES;
                int mine = next < (size_t)kept && at == element * sizeof *in + (size_t)offsets[next % BYTES];
                unsigned char wanted = mine ? (unsigned char)flat[next] : 0xA5;
                next += (size_t)mine;
                if (got[at] != wanted) {
                    CHECK_FAIL("count %d way %d: byte %zu is %u, wanted %u", n, w, at, got[at], wanted);
                    break;
                }
            }
        }
        free(out);
        free(in);
        free(flat);
        free(come);
    }

    /* The type is freed while a message of it is under way. */
    enum { N = 200000 };
    struct piece *out = malloc(N * sizeof *out), *in = malloc(N * sizeof *in);
    memset(out, 1 + check_rank, N * sizeof *out);
    memset(in, 0, N * sizeof *in);
    MPI_Request requests[2];
    CHECK_OK(MPI_Irecv(in, N, type, peer, 2, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Isend(out, N, type, peer, 2, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        if (in[i].c[2] != 1 + peer) {
            CHECK_FAIL("element %d", i);
            break;
        }
    free(out);
    free(in);
    return check_end();
}
