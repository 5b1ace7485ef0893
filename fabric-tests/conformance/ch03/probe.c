/* Probes show the message that a receive would take, again and again, with its length, also before its data has come.
 *
 * Covers: 3.8.1, 2.9, 3.5
 * Ranks: 2 3
 */
#include "check.h"

static const int lengths[] = {0, 1, 100, 4096, 65536, 1000001, 5000000};
#define N ((int)(sizeof lengths / sizeof *lengths))

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    unsigned char *bytes = check_alloc(5000000);
    MPI_Status status;
    int flag;
    /* Nothing is there. */
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    int last = check_size - 1;
    if (check_rank != last) {
        for (int i = 0; i < N; i++) {
            fill(bytes, (size_t)lengths[i], (unsigned)(i + 10 * check_rank));
            CHECK_OK(MPI_Send(bytes, lengths[i], MPI_BYTE, last, i, MPI_COMM_WORLD));
        }
    } else {
        for (int i = 0; i < N; i++)
            for (int source = last - 1; source >= 0; source--) {
                for (int again = 0; again < 2; again++) {
                    CHECK_OK(MPI_Probe(source, i, MPI_COMM_WORLD, &status));
                    CHECK_STATUS(status, source, i, MPI_BYTE, lengths[i]);
                    CHECK_OK(MPI_Probe(source, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
                    CHECK_STATUS(status, source, i, MPI_BYTE, lengths[i]);
                    for (flag = 0; !flag;) CHECK_OK(MPI_Iprobe(source, i, MPI_COMM_WORLD, &flag, &status));
                    CHECK_STATUS(status, source, i, MPI_BYTE, lengths[i]);
                }
                CHECK_OK(MPI_Probe(source, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Iprobe(source, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                CHECK_INT(flag, 0);
                memset(bytes, 0, (size_t)lengths[i]);
                CHECK_OK(MPI_Recv(bytes, lengths[i], MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status));
                CHECK_STATUS(status, source, i, MPI_BYTE, lengths[i]);
                CHECK_FILL(bytes, lengths[i], i + 10 * source);
            }
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));

    /* Wildcard probe, then the receive it promised, from several senders. */
    if (check_rank != last)
        for (int i = 0; i < 50; i++) CHECK_OK(MPI_Send(&i, 1, MPI_INT, last, check_rank, MPI_COMM_WORLD));
    else {
        int next[16] = {0};
        for (int k = 0; k < 50 * last; k++) {
            int value = -1;
            CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            int source = status.MPI_SOURCE;
            CHECK_INT(status.MPI_TAG, source);
            CHECK_OK(MPI_Recv(&value, 1, MPI_INT, source, status.MPI_TAG, MPI_COMM_WORLD, &status));
            CHECK_INT(value, next[source]++);
        }
    }
    free(bytes);
    return check_end();
}
