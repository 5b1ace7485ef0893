/* An initialised rank that has spoken with its peers holds at most 15 MiB of memory.
 *
 * Covers: 2.9
 * Ranks: 2 8
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int peer = 0; peer < check_size; peer++) {
        int got = -1;
        CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, (check_rank + peer) % check_size, 1, &got, 1, MPI_INT,
                              (check_rank + check_size - peer) % check_size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1) break;
    if (file) fclose(file);
    if (check_rank == 0) fprintf(stderr, "resident: %ld KiB\n", kib);
    CHECK(kib > 0 && kib <= 15 * 1024);
    return check_end();
}
