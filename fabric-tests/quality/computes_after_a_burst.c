/* More messages than a device sends without an answer have left when their blocking sends have ended: the receiver, which calls MPI late, has
 * all of them while their sender computes. Short and longer ones, after a call that has connected the two. Told by a file, beside MPI.
 *
 * Covers: 2.9, 3.5
 * Ranks: 2
 * Node: one
 * Timeout: 120
 * Default: WEFT_TRANSPORT=softroce
 */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE = 20 /* seconds */, MOST = 12000 };

static const struct { int count, bytes; } bursts[] = { { 200, 8 }, { 100, 1000 }, { 60, 4000 }, { 30, MOST } };

static const char *path_of(int burst)
{
    static char path[64];
    snprintf(path, sizeof path, "a_burst.%d.%d", (int)getppid(), burst);
    return path;
}

int main(int argc, char **argv)
{
    static unsigned char bytes[MOST];
    check_start(&argc, &argv);
    for (int burst = 0; burst < (int)(sizeof bursts / sizeof *bursts); burst++) {
        const int length = bursts[burst].bytes;
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) {
            for (int i = 0; i < bursts[burst].count; i++) {
                memset(bytes, i, sizeof bytes);
                CHECK_OK(MPI_Send(bytes, length, MPI_BYTE, 1, 3, MPI_COMM_WORLD));
            }
            for (int turn = 0; turn < PATIENCE * 1000 && access(path_of(burst), F_OK) != 0; turn++) usleep(1000);
            CHECK(access(path_of(burst), F_OK) == 0);
        } else {
            usleep(300000);
            for (int i = 0; i < bursts[burst].count; i++) {
                CHECK_OK(MPI_Recv(bytes, length, MPI_BYTE, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_INT(bytes[0], (unsigned char)i);
                CHECK_INT(bytes[length - 1], (unsigned char)i);
            }
            const int made = open(path_of(burst), O_CREAT | O_RDWR, 0600);
            CHECK(made >= 0);
            close(made);
        }
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        if (check_rank == 0) unlink(path_of(burst));
    }
    return check_end();
}
