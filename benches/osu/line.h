/* Memory that the ranks share without any help of MPI: a cache line, to measure the cores and to know what the other did, and room through
 * which bytes are copied. Both go between ranks 0 and 1; further ones only see when they have been measured. */
#ifndef WEFT_BENCH_LINE_H
#define WEFT_BENCH_LINE_H

#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct line {
    volatile int turn;
    char rest[124];
};
static struct line *line;

/* Behind the page of lines: as much as a stream of pieces needs that both nearest caches do not hold. */
enum { STREAM_PIECE = 32 << 10, STREAM_PLACES = 16, SHARED = 4096 + STREAM_PIECE * STREAM_PLACES };

/* What all ranks share, reached through /proc so that nothing has a name in a file system. */
static void share_line(void)
{
    int where[2] = {0, 0}, fd, to;
    char path[64];
    if (ranks < 2)
        return;
    if (rank == 0) {
        fd = (int)syscall(SYS_memfd_create, "line", 0);
        if (fd < 0 || ftruncate(fd, SHARED))
            give_up("no memory to share");
        where[0] = (int)getpid();
        where[1] = fd;
        for (to = 1; to < ranks; to++)
            MPI_Send(where, 2, MPI_INT, to, 5, MPI_COMM_WORLD);
    } else {
        MPI_Recv(where, 2, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
        fd = open(path, O_RDWR);
    }
    line = fd < 0 ? MAP_FAILED : mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (line == MAP_FAILED) {
        fprintf(stderr, "cannot map the shared line\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void pause_a_little(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void await_turn(int turn)
{
    while (__atomic_load_n(&line->turn, __ATOMIC_ACQUIRE) != turn)
        pause_a_little();
}

static void give_turn(int turn)
{
    __atomic_store_n(&line->turn, turn, __ATOMIC_RELEASE);
}

#endif
