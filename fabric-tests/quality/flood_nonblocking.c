/* A receiver flooded by nonblocking sends that it does not look at remembers a bounded number of them: the others wait at
 * the sender. Messages on another communicator pass meanwhile, a receive for the last of all finds it, and nothing is lost.
 *
 * Covers: 3.5, 3.7.2
 * Ranks: 2
 * Timeout: 180
 */
#include "check.h"

#define N 500000

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
    MPI_Comm other;
    int number, flag;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
    if (check_rank == 0) {
        int *numbers = check_alloc(N * sizeof(int));
        MPI_Request *requests = check_alloc(N * sizeof *requests);
        for (int i = 0; i < N; i++) {
            numbers[i] = i;
            CHECK_OK(MPI_Isend(&numbers[i], 1, MPI_INT, 1, i == N - 1, MPI_COMM_WORLD, &requests[i]));
        }
        CHECK_OK(MPI_Ssend(&numbers[7], 1, MPI_INT, 1, 2, other));
        CHECK_OK(MPI_Barrier(other));
        CHECK_OK(MPI_Waitall(N, requests, MPI_STATUSES_IGNORE));
        free(numbers);
        free(requests);
    } else {
        long before = peak();
        for (int i = 0; i < 20000; i++) {
            CHECK_OK(MPI_Iprobe(0, 77, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
            if (i % 200 == 0) usleep(1000);
        }
        CHECK_OK(MPI_Recv(&number, 1, MPI_INT, 0, 2, other, MPI_STATUS_IGNORE));
        CHECK_INT(number, 7);
        CHECK_OK(MPI_Barrier(other));
        long grown = (peak() - before) / 1024;
        fprintf(stderr, "receiver of %d nonblocking sends: peak memory grew by %ld MiB\n", N, grown);
        /* Without a bound it is about 90 MiB. */
        CHECK(grown <= 16);
        for (int i = 0; i < N / 2; i++) {
            CHECK_OK(MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_INT(number, i);
        }
        /* The last of all, before the rest. */
        CHECK_OK(MPI_Recv(&number, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(number, N - 1);
        for (int i = N / 2; i < N - 1; i++) {
            CHECK_OK(MPI_Recv(&number, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_INT(number, i);
        }
    }
    CHECK_OK(MPI_Comm_free(&other));
    return check_end();
}
