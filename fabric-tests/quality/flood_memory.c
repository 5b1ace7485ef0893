/* A receiver flooded by a million eager messages that it does not look at holds no more than its credits allow, whatever
 * their size; nothing is lost.
 *
 * Covers: 3.5
 * Ranks: 2 3
 * Timeout: 180
 */
#include "check.h"

#define N 1000000

/* Peak resident memory of this process, in KiB. */
static long peak(void)
{
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1) break;
    if (file) fclose(file);
    return kib;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {8, 1024};
    static char message[1024];
    int last = check_size - 1;
    for (int l = 0; l < 2; l++) {
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        long before = peak();
        int each = N / last / (l ? 4 : 1);
        if (check_rank != last) {
            for (int i = 0; i < each; i++) {
                memcpy(message, &i, sizeof i);
                CHECK_OK(MPI_Send(message, lengths[l], MPI_BYTE, last, l, MPI_COMM_WORLD));
            }
            CHECK_OK(MPI_Send(NULL, 0, MPI_BYTE, last, 9, MPI_COMM_WORLD));
        } else {
            int next[8] = {0}, flag;
            /* Progress without receiving: everything that may come, comes. */
            for (int i = 0; i < 20000; i++) {
                CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
                if (i % 200 == 0) usleep(1000);
            }
            for (int i = 0; i < each * last; i++) {
                MPI_Status status;
                int number;
                CHECK_OK(MPI_Recv(message, 1024, MPI_BYTE, MPI_ANY_SOURCE, l, MPI_COMM_WORLD, &status));
                memcpy(&number, message, sizeof number);
                CHECK_INT(number, next[status.MPI_SOURCE]);
                next[status.MPI_SOURCE] = number + 1;
            }
            for (int s = 0; s < last; s++) CHECK_OK(MPI_Recv(NULL, 0, MPI_BYTE, s, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            long grown = (peak() - before) / 1024;
            fprintf(stderr, "receiver of %d messages of %d bytes: peak memory grew by %ld MiB\n", each * last, lengths[l], grown);
            /* A message of 8 bytes kept costs about 100; a million of them 100 MiB. */
            CHECK(grown <= 24 * last);
        }
    }
    return check_end();
}
