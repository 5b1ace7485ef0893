/* What collectives inside a node cost at least where ranks share two cores: as many processes as ranks, a ring of shared memory for each, and
 * nothing else (no MPI, no look at other messages, no sleep). The bytes are copied as often as payloads in shared memory must be.
 *
 *   cc -O3 -march=native -o crowded benches/crowded.c && ./crowded allgather 64 4
 *
 * OPERATION: allgather (KIB from each), alltoall (KIB for each), allreduce (KIB of doubles, in two phases). Members of even rank run on core 0, the
 * others on core 1. Who waits gives its core away when somebody of its own core is missing, and otherwise after a hundred looks.
 * Printed are the 10th percentile and the median of a call, and of those microseconds what rank 0 spent writing into its ring, reading, copying its
 * own block and combining; the other ranks of its core need as much. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 16, KIB = 1024, RING = 1024 * KIB, MOST_PIECE = 256 * KIB, LOOKS = 100, MOST_SAMPLES = 20000, WARM = 5 };

/* How far a member is: rounds that it has written, and those that it has read. */
struct course {
    _Alignas(128) volatile uint64_t written;
    _Alignas(128) volatile uint64_t finished;
};
struct shared {
    struct course course[MOST_RANKS];
    _Alignas(128) volatile int stop[2];
};

static struct shared *shared;
static char *rings, *contribution, *result;
static int ranks, rank;
static uint64_t next_round;
static size_t next_place;
static uint64_t last_round[RING / 4096]; /* by page of a ring: one more than the last round that lay there */
static double writing, reading, keeping, combining;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t reached(int member, int finished)
{
    const struct course *course = &shared->course[member];
    return __atomic_load_n(finished ? &course->finished : &course->written, __ATOMIC_ACQUIRE);
}

/* Waits until all others have written, or finished, so many rounds. */
static void await(uint64_t rounds, int finished)
{
    int look = 0, member, missing, here;
    for (;;) {
        for (member = missing = here = 0; member < ranks; member++)
            if (member != rank && reached(member, finished) < rounds) {
                missing = 1;
                here |= (member & 1) == (rank & 1);
            }
        if (!missing)
            return;
        if (here || ++look > LOOKS) {
            sched_yield();
            look = 0;
        } else {
            __builtin_ia32_pause();
        }
    }
}

/* A place for a payload, the same in all rings, once all have finished what lay there. */
static size_t place(size_t bytes, uint64_t *round)
{
    uint64_t before = 0;
    size_t at, page;
    if (next_place + bytes > RING)
        next_place = 0;
    at = next_place;
    next_place += (bytes + 63) / 64 * 64;
    *round = next_round++;
    for (page = at / 4096; page <= (at + bytes - 1) / 4096; page++) {
        before = last_round[page] > before ? last_round[page] : before;
        last_round[page] = *round + 1;
    }
    await(before, 1);
    return at;
}

static char *ring(int member)
{
    return rings + (size_t)member * RING;
}

static void publish(uint64_t round)
{
    __atomic_store_n(&shared->course[rank].written, round + 1, __ATOMIC_RELEASE);
}

static void finish(uint64_t rounds)
{
    __atomic_store_n(&shared->course[rank].finished, rounds, __ATOMIC_RELEASE);
}

static void copy(char *to, const char *from, size_t bytes, double *spent)
{
    double began = now();
    memcpy(to, from, bytes);
    *spent += now() - began;
}

/* `blocks`: in a payload, one for all others or one for each of them. */
static void exchange(size_t bytes, int blocks)
{
    size_t most = MOST_PIECE / 64 / (size_t)blocks * 64, at, piece, begin;
    uint64_t round;
    int member;
    for (at = 0; at < bytes; at += piece) {
        piece = bytes - at < most ? bytes - at : most;
        begin = place(piece * (size_t)blocks, &round);
        if (blocks == 1)
            copy(ring(rank) + begin, contribution + at, piece, &writing);
        else
            for (member = 0; member < ranks; member++)
                if (member != rank)
                    copy(ring(rank) + begin + (size_t)(member - (member > rank)) * piece, contribution + (size_t)member * bytes + at,
                         piece, &writing);
        publish(round);
        await(round + 1, 0);
        for (member = 0; member < ranks; member++)
            if (member != rank)
                copy(result + (size_t)member * bytes + at,
                     ring(member) + begin + (blocks == 1 ? 0 : (size_t)(rank - (rank > member)) * piece), piece, &reading);
        finish(round + 1);
    }
    copy(result + (size_t)rank * bytes, contribution + (blocks == 1 ? 0 : (size_t)rank * bytes), bytes, &keeping);
}

/* All operands in one pass, in the order of ranks from the right. */
static void combine(double *into, const double *const *from, size_t count)
{
    double began = now();
    size_t i;
    int member;
    if (ranks == 4)
        for (i = 0; i < count; i++)
            into[i] = from[0][i] + (from[1][i] + (from[2][i] + from[3][i]));
    else
        for (i = 0; i < count; i++) {
            double sum = from[ranks - 1][i];
            for (member = ranks - 2; member >= 0; member--)
                sum += from[member][i];
            into[i] = sum;
        }
    combining += now() - began;
}

struct payload {
    size_t begin, bytes;
    uint64_t round;
};

/* Everybody writes what the others combine. */
static void contribute(size_t at, size_t bytes, struct payload *parts)
{
    size_t part = bytes / (size_t)ranks;
    int member;
    parts->bytes = bytes;
    parts->begin = place(bytes, &parts->round);
    for (member = 0; member < ranks; member++)
        if (member != rank)
            copy(ring(rank) + parts->begin + (size_t)member * part, contribution + at + (size_t)member * part, part, &writing);
    publish(parts->round);
}

/* Combines the own part and fetches all. */
static void conclude(size_t at, const struct payload *parts)
{
    size_t part = parts->bytes / (size_t)ranks, own = (size_t)rank * part, begin;
    const double *from[MOST_RANKS];
    uint64_t round;
    int member;
    await(parts->round + 1, 0);
    begin = place(part, &round);
    for (member = 0; member < ranks; member++)
        from[member] = (const double *)(member == rank ? contribution + at + own : ring(member) + parts->begin + own);
    combine((double *)(ring(rank) + begin), from, part / sizeof(double));
    publish(round);
    finish(parts->round + 1);
    await(round + 1, 0);
    for (member = 0; member < ranks; member++)
        copy(result + at + (size_t)member * part, ring(member) + begin, part, &reading);
}

static void allreduce(size_t bytes)
{
    size_t unit = KIB * (size_t)ranks, most = 192 * KIB / unit * unit, at;
    struct payload parts[2];
    int turn = 0;
    contribute(0, bytes < most ? bytes : most, &parts[0]);
    for (at = 0; at < bytes; at += most, turn = !turn) {
        size_t left = bytes - at;
        if (left > most)
            contribute(at + most, left - most < most ? left - most : most, &parts[!turn]);
        conclude(at, &parts[turn]);
    }
    finish(next_round);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static double samples[MOST_SAMPLES];
    const char *operation = argc == 4 ? argv[1] : "";
    int kind = !strcmp(operation, "allgather") ? 0 : !strcmp(operation, "alltoall") ? 1 : !strcmp(operation, "allreduce") ? 2 : 3;
    size_t bytes = (argc == 4 ? strtoul(argv[2], NULL, 10) : 0) * KIB, all;
    int batch, call, calls, count = 0;
    double began;
    cpu_set_t core;

    ranks = argc == 4 ? atoi(argv[3]) : 0;
    if (kind == 3 || ranks < 2 || ranks > MOST_RANKS || ranks % 2 || bytes == 0 || bytes > 4096 * KIB) {
        fprintf(stderr, "usage: crowded allgather|alltoall|allreduce KIB RANKS    (RANKS: even, at most %d; KIB: at most 4096)\n", MOST_RANKS);
        return 2;
    }
    if (kind == 2 && bytes % (KIB * (size_t)ranks)) {
        fprintf(stderr, "crowded: an allreduce needs a multiple of RANKS KiB\n");
        return 2;
    }
    all = sizeof *shared + (size_t)ranks * RING + 2 * 4096;
    shared = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("crowded: no memory to share");
        return 1;
    }
    rings = (char *)shared + (sizeof *shared + 4095) / 4096 * 4096;
    for (rank = ranks - 1; rank > 0; rank--)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            break;
        }
    CPU_ZERO(&core);
    CPU_SET(rank & 1, &core);
    sched_setaffinity(0, sizeof core, &core);
    contribution = aligned_alloc(4096, bytes * (size_t)ranks);
    result = aligned_alloc(4096, bytes * (size_t)ranks);
    if (!contribution || !result)
        return 1;
    memset(contribution, 0, bytes * (size_t)ranks);
    memset(result, 1, bytes * (size_t)ranks);

    calls = (int)(256 * KIB / bytes);
    calls = (calls + ranks) / ranks * ranks;
    began = now();
    for (batch = 0; batch < MOST_SAMPLES; batch++) {
        double start = now();
        int over;
        if (batch == WARM)
            writing = reading = keeping = combining = 0;
        for (call = 0; call < calls; call++)
            if (kind == 2)
                allreduce(bytes);
            else
                exchange(bytes, kind == 0 ? 1 : ranks - 1);
        if (batch >= WARM)
            samples[count++] = (now() - start) / calls * 1e6;
        /* All learn in the same batch that it was the last. */
        if (rank == 0 && batch > 20 && now() - began > .5)
            shared->stop[batch & 1] = 1;
        publish(next_round++);
        await(next_round, 0);
        over = shared->stop[batch & 1];
        finish(next_round);
        if (over)
            break;
    }
    if (rank)
        _exit(0);
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    printf("%s %zu KiB, %d ranks: %.1f us, median %.1f; rank 0 writing %.1f, reading %.1f, own block %.1f, combining %.1f\n", operation,
           bytes / KIB, ranks, samples[count / 10], samples[count / 2], writing * 1e6 / count / calls, reading * 1e6 / count / calls,
           keeping * 1e6 / count / calls, combining * 1e6 / count / calls);
    while (wait(NULL) > 0)
        ;
    return 0;
}
