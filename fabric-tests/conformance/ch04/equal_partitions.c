/* The same partitions on both sides: every size, every order of marking, the request used again and again.
 *
 * Covers: 4.2, 4.2.1, 4.2.2, 4.2.3
 * Ranks: 1 2 3
 */
#include "check.h"

#define PARTITIONS 7

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    static const int lengths[] = {1, 8, 1000, 20000, 300000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        size_t part = (size_t)lengths[l], total = part * PARTITIONS;
        struct guarded in = guarded_new(total);
        unsigned char *out = check_alloc(total);
        MPI_Request send = MPI_REQUEST_NULL, receive = MPI_REQUEST_NULL;
        MPI_Status status;
        int flag = 0;
        CHECK_OK(MPI_Psend_init(out, PARTITIONS, (int)part, MPI_BYTE, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        CHECK_OK(MPI_Precv_init(in.bytes, PARTITIONS, (int)part, MPI_BYTE, before, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        CHECK(send != MPI_REQUEST_NULL && receive != MPI_REQUEST_NULL);
        /* Inactive requests are complete with an empty status, and their partitions have arrived. */
        CHECK_OK(MPI_Wait(&send, &status));
        CHECK_EMPTY(status);
        CHECK_OK(MPI_Test(&receive, &flag, &status));
        CHECK(flag);
        CHECK_EMPTY(status);
        flag = 0;
        CHECK_OK(MPI_Parrived(receive, 3, &flag));
        CHECK(flag);
        for (int round = 0; round < 5; round++) {
            fill(out, total, (unsigned)(round * 10 + check_rank));
            memset(in.bytes, 0, total);
            /* Starting alone transfers nothing; sometimes the receiver is late. */
            if (round % 2 == 0) CHECK_OK(MPI_Start(&receive));
            CHECK_OK(MPI_Start(&send));
            for (int i = 0; i < PARTITIONS; i++) {
                int partition = round == 0 ? i : round == 1 ? PARTITIONS - 1 - i : (i * 3 + round) % PARTITIONS;
                if (round == 3) {
                    if (i == 0) CHECK_OK(MPI_Pready_range(0, PARTITIONS - 1, send));
                } else if (round == 4) {
                    static const int first[] = {6, 0, 3}, second[] = {5, 1, 2, 4};
                    if (i == 0) CHECK_OK(MPI_Pready_list(3, first, send));
                    if (i == 1) CHECK_OK(MPI_Pready_list(4, second, send));
                    if (i == 2) CHECK_OK(MPI_Pready_list(0, NULL, send));
                } else
                    CHECK_OK(MPI_Pready(partition, send));
            }
            if (round % 2 == 1) CHECK_OK(MPI_Start(&receive));
            for (int i = 0; i < PARTITIONS; i++) {
                flag = 0;
                while (!flag) CHECK_OK(MPI_Parrived(receive, i, &flag));
            }
            CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Wait(&receive, &status));
            CHECK_STATUS(status, before, 5, MPI_BYTE, (int)total);
            CHECK_FILL(in.bytes, total, round * 10 + before);
            CHECK_GUARDS(in);
            CHECK(send != MPI_REQUEST_NULL && receive != MPI_REQUEST_NULL);
        }
        CHECK_OK(MPI_Request_free(&send));
        CHECK_OK(MPI_Request_free(&receive));
        CHECK(send == MPI_REQUEST_NULL && receive == MPI_REQUEST_NULL);
        free(out);
        free(in.whole);
    }
    return check_end();
}
