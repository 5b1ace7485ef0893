/* What collectives inside a node cost at least where ranks share two cores: as many processes as ranks, a ring of shared memory for each, and
 * nothing else (no MPI, no look at other messages, no sleep). The bytes are copied as often as payloads in shared memory must be.
 *
 *   cc -O3 -march=native -o crowded benches/crowded.c && ./crowded allgather 64 4
 *
 * OPERATION: allgather (KIB from each), alltoall (KIB for each), allreduce (KIB of doubles, in two phases); direct-allgather and direct-alltoall, which
 * read the others' own memory by process_vm_readv, one copy instead of two; cores, an allreduce in three steps: members of one core combine there,
 * cores exchange once, all fetch the results. PIECE: KiB in a round of an allreduce (192). Members of even rank run on core 0, the
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
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 16, KIB = 1024, RING = 2048 * KIB, MOST_PIECE = 256 * KIB, LOOKS = 100, MOST_SAMPLES = 20000, WARM = 5 };

/* How far a member is: rounds that it has written, and those that it has read. */
struct course {
    _Alignas(128) volatile uint64_t written;
    _Alignas(128) volatile uint64_t finished;
};
struct shared {
    struct course course[MOST_RANKS];
    struct {
        pid_t process;
        char *contribution;
    } memory[MOST_RANKS];
    _Alignas(128) volatile int stop[2];
};

static struct shared *shared;
static char *rings, *contribution, *result;
static int ranks, rank;
static uint64_t next_round;
static size_t next_place;
static uint64_t last_round[RING / 4096]; /* by page of a ring: one more than the last round that lay there */
static size_t reduced_at_once = 192 * KIB;
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
    /* Whole pages: two payloads of a call on one page would wait for each other. */
    next_place += (bytes + 4095) / 4096 * 4096;
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

/* The same without a ring: nobody may go on before all have read its memory. */
static void exchange_directly(size_t bytes, int blocks)
{
    uint64_t round = next_round++;
    int member;
    publish(round);
    copy(result + (size_t)rank * bytes, contribution + (blocks == 1 ? 0 : (size_t)rank * bytes), bytes, &keeping);
    await(round + 1, 0);
    for (member = 0; member < ranks; member++)
        if (member != rank) {
            double began = now();
            struct iovec here = {result + (size_t)member * bytes, bytes};
            struct iovec there = {shared->memory[member].contribution + (blocks == 1 ? 0 : (size_t)rank * bytes), bytes};
            if (process_vm_readv(shared->memory[member].process, &here, 1, &there, 1, 0) != (ssize_t)bytes) {
                perror("crowded: cannot read another process");
                exit(1);
            }
            reading += now() - began;
        }
    finish(round + 1);
    await(round + 1, 1);
}

/* All operands in one pass, from the right. */
static void combine(double *into, const double *const *from, int operands, size_t count)
{
    double began = now();
    size_t i;
    int k;
    switch (operands) {
    case 2:
        for (i = 0; i < count; i++)
            into[i] = from[0][i] + from[1][i];
        break;
    case 3:
        for (i = 0; i < count; i++)
            into[i] = from[0][i] + (from[1][i] + from[2][i]);
        break;
    case 4:
        for (i = 0; i < count; i++)
            into[i] = from[0][i] + (from[1][i] + (from[2][i] + from[3][i]));
        break;
    case 5:
        for (i = 0; i < count; i++)
            into[i] = from[0][i] + (from[1][i] + (from[2][i] + (from[3][i] + from[4][i])));
        break;
    default:
        for (i = 0; i < count; i++) {
            double sum = from[operands - 1][i];
            for (k = operands - 2; k >= 0; k--)
                sum += from[k][i];
            into[i] = sum;
        }
    }
    combining += now() - began;
}

/* Waits until one other has written so many rounds. */
static void await_one(int member, uint64_t rounds)
{
    int look = 0, here = (member & 1) == (rank & 1);
    while (reached(member, 0) < rounds) {
        if (here || ++look > LOOKS) {
            sched_yield();
            look = 0;
        } else {
            __builtin_ia32_pause();
        }
    }
}

/* The contributions of the own core to half a piece, and `more` if there is any. */
static void combine_own(char *into, size_t at, size_t contributed, size_t half_at, size_t half, const char *more)
{
    const double *from[MOST_RANKS + 1];
    int member, count = 0;
    for (member = rank & 1; member < ranks; member += 2)
        from[count++] = (const double *)((member == rank ? contribution + at : ring(member) + contributed) + half_at);
    if (more)
        from[count++] = (const double *)more;
    combine((double *)into, from, count, half / sizeof(double));
}

/* Ranks 0 and 1 combine, each for its core: first the half that the other will finish, then its own. */
static void allreduce_by_cores(size_t bytes)
{
    size_t at, piece, half;
    for (at = 0; at < bytes; at += piece) {
        uint64_t written, exchanged, combined;
        size_t contributed, sums, results;
        int core = rank & 1, member;
        piece = bytes - at < reduced_at_once ? bytes - at : reduced_at_once;
        half = piece / 2;
        contributed = place(piece, &written);
        sums = place(half, &exchanged);
        results = place(half, &combined);
        if (rank != core) {
            copy(ring(rank) + contributed, contribution + at, piece, &writing);
        } else {
            for (member = core + 2; member < ranks; member += 2)
                await_one(member, written + 1);
            combine_own(ring(rank) + sums, at, contributed, core ? 0 : half, half, NULL);
            publish(exchanged);
            await_one(!core, exchanged + 1);
            combine_own(ring(rank) + results, at, contributed, core ? half : 0, half, ring(!core) + sums);
        }
        publish(combined);
        for (member = 0; member < 2; member++) {
            await_one(member, combined + 1);
            copy(result + at + (size_t)member * half, ring(member) + results, half, &reading);
        }
        finish(combined + 1);
    }
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
    combine((double *)(ring(rank) + begin), from, ranks, part / sizeof(double));
    publish(round);
    finish(parts->round + 1);
    await(round + 1, 0);
    for (member = 0; member < ranks; member++)
        copy(result + at + (size_t)member * part, ring(member) + begin, part, &reading);
}

static void allreduce(size_t bytes)
{
    size_t unit = KIB * (size_t)ranks, most = reduced_at_once / unit * unit, at;
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
    static const char *const operations[] = {"allgather", "alltoall", "allreduce", "direct-allgather", "direct-alltoall", "cores"};
    enum { ALLGATHER, ALLTOALL, ALLREDUCE, DIRECT_ALLGATHER, DIRECT_ALLTOALL, CORES, NONE };
    int given = argc == 4 || argc == 5, kind = given ? 0 : NONE;
    size_t bytes = (given ? strtoul(argv[2], NULL, 10) : 0) * KIB, all;
    int batch, call, calls, count = 0;
    size_t at;
    double began;
    cpu_set_t core;

    while (kind < NONE && strcmp(argv[1], operations[kind]))
        kind++;
    if (argc == 5)
        reduced_at_once = strtoul(argv[4], NULL, 10) * KIB;
    ranks = given ? atoi(argv[3]) : 0;
    if (kind == NONE || ranks < 2 || ranks > MOST_RANKS || ranks % 2 || bytes == 0 || bytes > 4096 * KIB) {
        fprintf(stderr, "usage: crowded OPERATION KIB RANKS [PIECE]\n"
                        "    OPERATION: allgather, alltoall, allreduce, direct-allgather, direct-alltoall, cores\n"
                        "    RANKS: even, at most %d; KIB: at most 4096; PIECE: KiB in a round of an allreduce, at most 512\n",
                MOST_RANKS);
        return 2;
    }
    if ((kind == ALLREDUCE || kind == CORES) &&
        (bytes % (KIB * (size_t)ranks) || reduced_at_once < KIB * (size_t)ranks || reduced_at_once > 512 * KIB)) {
        fprintf(stderr, "crowded: an allreduce needs a multiple of RANKS KiB, and pieces of RANKS to 512 KiB\n");
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
    for (at = 0; at < bytes * (size_t)ranks / sizeof(double); at++)
        ((double *)contribution)[at] = rank + 1;
    memset(result, 1, bytes * (size_t)ranks);

    shared->memory[rank].process = getpid();
    shared->memory[rank].contribution = contribution;
    calls = (int)(256 * KIB / bytes);
    calls = (calls + ranks) / ranks * ranks;
    began = now();
    for (batch = 0; batch < MOST_SAMPLES; batch++) {
        double start = now();
        int over;
        if (batch == WARM)
            writing = reading = keeping = combining = 0;
        for (call = 0; call < calls; call++)
            if (kind == ALLREDUCE)
                allreduce(bytes);
            else if (kind == CORES)
                allreduce_by_cores(bytes);
            else if (kind == DIRECT_ALLGATHER || kind == DIRECT_ALLTOALL)
                exchange_directly(bytes, kind == DIRECT_ALLGATHER ? 1 : ranks - 1);
            else
                exchange(bytes, kind == ALLGATHER ? 1 : ranks - 1);
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
    for (at = 0; at < bytes * (kind == ALLREDUCE || kind == CORES ? 1 : (size_t)ranks) / sizeof(double); at++) {
        double right = kind == ALLREDUCE || kind == CORES ? ranks * (ranks + 1) / 2 : (int)(at / (bytes / sizeof(double))) + 1;
        if (((double *)result)[at] != right) {
            fprintf(stderr, "crowded: rank %d has a wrong result\n", rank);
            _exit(1);
        }
    }
    if (rank)
        _exit(0);
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    printf("%s %zu KiB, %d ranks: %.1f us, median %.1f; rank 0 writing %.1f, reading %.1f, own block %.1f, combining %.1f\n", argv[1],
           bytes / KIB, ranks, samples[count / 10], samples[count / 2], writing * 1e6 / count / calls, reading * 1e6 / count / calls,
           keeping * 1e6 / count / calls, combining * 1e6 / count / calls);
    while (wait(NULL) > 0)
        ;
    return 0;
}
