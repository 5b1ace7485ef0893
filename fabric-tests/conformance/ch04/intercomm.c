/* Partitioned operations on an intercommunicator: ranks are those of the remote group, both directions at once, with other partitions
 * at either side, small and large, and started again and again.
 *
 * Covers: 4.2, 4.2.1, 4.2.3, 7.6
 * Ranks: 3 4
 */
#include "check.h"

enum { TOTAL = 24, STARTS = 4, TAG = 5 };

static unsigned seed(int from_lone, int rank, int start)
{
    return (unsigned)(from_lone * 1000 + rank * 50 + start);
}

int main(int argc, char **argv)
{
    MPI_Comm half, inter;
    int remote, mine;
    check_start(&argc, &argv);
    int is_lone = check_rank == 0;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, is_lone, 0, &half));
    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_lone ? 1 : 0, 3, &inter));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_OK(MPI_Comm_rank(inter, &mine));
    static const int lengths[] = {1, 40, 3000, 70000}, cuts[][2] = {{6, 6}, {6, 4}, {1, 12}, {24, 2}};
    for (unsigned c = 0; c < 16; c++) {
        /* TOTAL elements of so many bytes, in so many partitions at the lone rank and at the others. */
        int length = lengths[c % 4], own = cuts[c / 4][!is_lone];
        size_t bytes = (size_t)length * TOTAL;
        unsigned char *out[4], *in[4];
        MPI_Request requests[8];
        for (int r = 0; r < remote; r++) {
            out[r] = check_alloc(bytes);
            in[r] = check_alloc(bytes);
            CHECK_OK(MPI_Psend_init(out[r], own, TOTAL / own * length, MPI_BYTE, r, TAG, inter, MPI_INFO_NULL, &requests[2 * r]));
            CHECK_OK(MPI_Precv_init(in[r], own, TOTAL / own * length, MPI_BYTE, r, TAG, inter, MPI_INFO_NULL, &requests[2 * r + 1]));
        }
        for (int start = 0; start < STARTS; start++) {
            MPI_Status statuses[8];
            for (int r = 0; r < remote; r++) memset(in[r], 0, bytes);
            CHECK_OK(MPI_Startall(2 * remote, requests));
            for (int r = 0; r < remote; r++) {
                fill(out[r], bytes, seed(is_lone, is_lone ? r : mine, start));
                for (int i = own - 1; i >= 0; i--) CHECK_OK(MPI_Pready(i, requests[2 * r]));
            }
            CHECK_OK(MPI_Waitall(2 * remote, requests, statuses));
            for (int r = 0; r < remote; r++) {
                CHECK_STATUS(statuses[2 * r + 1], r, TAG, MPI_BYTE, (int)bytes);
                CHECK_FILL(in[r], bytes, seed(!is_lone, is_lone ? r : mine, start));
            }
        }
        for (int i = 0; i < 2 * remote; i++) CHECK_OK(MPI_Request_free(&requests[i]));
        for (int r = 0; r < remote; r++) {
            free(out[r]);
            free(in[r]);
        }
    }
    CHECK_OK(MPI_Comm_free(&inter));
    CHECK_OK(MPI_Comm_free(&half));
    return check_end();
}
