/* Short partitions, of which several may share a cache line: any numbers and lengths on both sides, any order of marks, the sender up
 * to many starts ahead, partitions asked for one by one or only waited for, elements with and without gaps, both ways at once.
 *
 * Covers: 4.2.1, 4.2.2, 4.2.3
 * Ranks: 2
 */
#include "check.h"

enum { OPERATIONS = 40, STARTS = 30, MOST = 64, BYTES = 9000 };

static unsigned long long state = 20261121;

/* The same numbers on both sides. */
static int below(int bound)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((state >> 33) % (unsigned long long)bound);
}

static unsigned char out[2 * BYTES], in[2 * BYTES];

#define EXPECT(condition, ...)                      \
    do {                                            \
        if (!(condition)) CHECK_FAIL(__VA_ARGS__); \
    } while (0)

static unsigned char value(int operation, int start, int rank, int at)
{
    return (unsigned char)(operation * 31 + start * 7 + rank * 101 + at * 13 + at / 251);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    if (check_rank == 0)
        printf("seed %llu\n", state);
    for (int operation = 0; operation < OPERATIONS; operation++) {
        /* The total is a multiple of both numbers of partitions. */
        int parts[2] = {1 + below(8), 1 + below(8)}, mine, theirs;
        int scale = 1 + below(8), length = 1 + below(operation % 3 ? 4 : 40), gap = 1 + below(2);
        int total = parts[0] * parts[1] * scale * length;
        MPI_Datatype element = MPI_BYTE;
        MPI_Request send, receive;
        if (total > BYTES) total = parts[0] * parts[1];
        mine = parts[check_rank] * (total % (parts[0] * parts[1] * scale) == 0 && parts[check_rank] * scale <= MOST ? scale : 1);
        theirs = parts[check_rank];
        if (gap == 2) {
            CHECK_OK(MPI_Type_create_resized(MPI_BYTE, 0, 2, &element));
            CHECK_OK(MPI_Type_commit(&element));
        }
        CHECK_OK(MPI_Psend_init(out, mine, total / mine, element, !check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        CHECK_OK(MPI_Precv_init(in, theirs, total / theirs, element, !check_rank, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        for (int start = 0; start < STARTS; start++) {
            int order[MOST], style = below(4), behind = below(3), turn = below(2);
            for (int i = 0; i < MOST; i++) order[i] = i;
            if (style < 2)
                for (int i = mine - 1; i > 0; i--) {
                    /* Each side draws as often as the other, whatever its number of partitions. */
                    int other = (int)((unsigned)(operation * 977 + start * 31 + i * 7) % (unsigned)(i + 1)), kept = order[i];
                    order[i] = order[other];
                    order[other] = kept;
                }
            memset(in, 0xee, sizeof in);
            if (behind != check_rank) CHECK_OK(MPI_Start(&receive));
            CHECK_OK(MPI_Start(&send));
            for (int i = 0; i < mine; i++) {
                int bytes = total / mine;
                for (int k = 0; k < bytes; k++)
                    out[(order[i] * bytes + k) * gap] = value(operation, start, check_rank, order[i] * bytes + k);
                if (style == 3 && i + 1 < mine) {
                    for (int k = 0; k < bytes; k++)
                        out[((i + 1) * bytes + k) * gap] = value(operation, start, check_rank, (i + 1) * bytes + k);
                    CHECK_OK(MPI_Pready_range(i, i + 1, send));
                    i++;
                } else {
                    CHECK_OK(MPI_Pready(order[i], send));
                }
            }
            if (behind == check_rank) CHECK_OK(MPI_Start(&receive));
            if (turn)
                for (int i = theirs - 1; i >= 0; i--) {
                    int flag = 0;
                    while (!flag) CHECK_OK(MPI_Parrived(receive, i, &flag));
                    for (int k = i * (total / theirs); k < (i + 1) * (total / theirs); k++)
                        EXPECT(in[k * gap] == value(operation, start, !check_rank, k),
                                  "operation %d, start %d: byte %d of partition %d is early or wrong", operation, start, k, i);
                }
            if (below(2)) {
                int flag = 0;
                while (!flag) CHECK_OK(MPI_Test(&receive, &flag, MPI_STATUS_IGNORE));
            } else {
                MPI_Status status;
                int count;
                CHECK_OK(MPI_Wait(&receive, &status));
                CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
                EXPECT(status.MPI_SOURCE == !check_rank && status.MPI_TAG == 5 && (gap == 2 || count == total), "status of %d bytes", count);
            }
            CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            for (int k = 0; k < total; k++) {
                EXPECT(in[k * gap] == value(operation, start, !check_rank, k), "operation %d, start %d: byte %d", operation, start, k);
                EXPECT(gap == 1 || in[k * gap + 1] == 0xee, "operation %d, start %d: gap behind %d", operation, start, k);
            }
        }
        CHECK_OK(MPI_Request_free(&send));
        CHECK_OK(MPI_Request_free(&receive));
        if (gap == 2) CHECK_OK(MPI_Type_free(&element));
    }
    return check_end();
}
