/* Buffers that are used again and again by long messages are registered once with a device, whether it follows what the program maps or the kernel tells
 * of it; and never mean pages that the program has given back: not after munmap, mmap over them, madvise, mremap, free and malloc, while another thread of the program
 * maps and unmaps all the time.
 *
 * Covers: 3.4, 3.7.3
 * Ranks: 2
 * Env: WEFT_RENDEZVOUS=read
 * Env: WEFT_RENDEZVOUS=write
 * Timeout: 120
 */
#define _GNU_SOURCE
#include "counter.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PAGE = 4096, LENGTH = 80 * PAGE, TURNS = 40, AGAIN = 20 };

static atomic_int over;

/* Whether the kernel would tell this process of its mappings: in the mode for what the process itself does (UFFD_USER_MODE_ONLY, 1). */
static int kernel_tells(void)
{
    const long descriptor = syscall(SYS_userfaultfd, 1);
    if (descriptor < 0) return 0;
    close((int)descriptor);
    return 1;
}

/* Takes and gives back memory that nobody sends: none of it is to be missed where it comes to lie where a buffer was. */
static void *churn(void *nothing)
{
    while (!atomic_load(&over)) {
        char *pages = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED) break;
        pages[0] = pages[LENGTH - 1] = 1;
        munmap(pages, LENGTH);
        usleep(500);
    }
    return nothing;
}

static unsigned char *map(void *place, int fixed)
{
    void *pages = mmap(place, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    CHECK(pages != MAP_FAILED);
    return pages;
}

/* Gives the pages of a buffer back, all or some, and has others, mostly at the same address. Nothing lies free that the other thread may get, where it is mapped over. */
static unsigned char *change(unsigned char *buffer, int how)
{
    switch (how % 6) {
    case 0: return map(buffer, MAP_FIXED);
    case 1: CHECK_INT(madvise(buffer + PAGE, LENGTH / 2, MADV_DONTNEED), 0); return buffer;
    case 2:
        CHECK_INT(munmap(buffer, LENGTH), 0);
        return map(buffer, 0);
    case 3: {
        unsigned char *place = map(NULL, 0);
        CHECK(mremap(buffer, LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
        return place;
    }
    case 4:
        CHECK(mmap(buffer + LENGTH / 2, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
        return buffer;
    default: CHECK_INT(madvise(buffer, LENGTH, MADV_FREE), 0); return buffer;
    }
}

static void exchange(unsigned char *buffer, int me, int turn)
{
    const int length = LENGTH - turn % 7;
    if (me == 0) {
        for (int i = 0; i < length; i++) buffer[i] = (unsigned char)(i * 7 + turn * 13 + i / 251);
        CHECK_OK(MPI_Send(buffer, length, MPI_BYTE, 1, turn, MPI_COMM_WORLD));
        return;
    }
    memset(buffer, 0, LENGTH);
    CHECK_OK(MPI_Recv(buffer, length, MPI_BYTE, 0, turn, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    int wrong = 0;
    for (int i = 0; i < length; i++) wrong += buffer[i] != (unsigned char)(i * 7 + turn * 13 + i / 251);
    CHECK_INT(wrong, 0);
}

int main(int argc, char **argv)
{
    int me;
    pthread_t thread;
    check_start(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    CHECK_INT(pthread_create(&thread, NULL, churn, NULL), 0);
    open_counter("weft_registrations");
    unsigned char *buffer = map(NULL, 0);
    const unsigned long long before = counted();
    for (int turn = 0; turn < TURNS; turn++) exchange(buffer, me, turn);
    const unsigned long long once = counted() - before;
    /* None where memory is shared. */
    const char *keep = getenv("WEFT_KEEP_REGISTERED");
    if (!kernel_tells()) printf("the kernel does not tell this process of its mappings: any number of registrations is right\n");
    else if (!keep || strcmp(keep, "no")) CHECK(once <= 1);
    for (int turn = 0; turn < TURNS * AGAIN / 4; turn++) {
        exchange(buffer, me, turn);
        if (turn % 4 == 3) buffer = change(buffer, turn / 4 + me);
    }
    /* What malloc gives back and takes again. */
    for (int turn = 0; turn < TURNS; turn++) {
        unsigned char *taken = malloc(LENGTH);
        CHECK(taken != NULL);
        exchange(taken, me, turn);
        exchange(taken, me, turn + 1);
        free(taken);
    }
    const unsigned long long all = counted() - before;
    if (me == 0) printf("%llu registrations for %d messages, %llu in all\n", once, TURNS, all);
    atomic_store(&over, 1);
    CHECK_INT(pthread_join(thread, NULL), 0);
    munmap(buffer, LENGTH);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_end();
}
