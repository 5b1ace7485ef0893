/* How fast doubles that lie apart can go to and fro between two processes at all: without MPI, packed by one into memory that both share,
 * piece by piece, and unpacked by the other, by the loops of lines.c.
 *
 *     cc -O2 -o exchange benches/exchange.c && ./exchange [PART OF A NAME] [ROUNDS]
 *
 * The layouts are those of osu/datatypes.c. Every loop and every length of a piece is tried in each round, in processes bound to cores 0 and 1,
 * beside a bare line that goes to and fro: near are rounds in which it takes less than 80 ns one way.
 *
 * Output: for each layout, near and far, a line for each pair of loops with us one way for each length of a piece (median over rounds of the
 * 25th percentile of some trips).
 */
#define LINES_WITHOUT_MAIN
#include "lines.c"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PACKS = 3, UNPACKS = 3, PIECES = 4, LAYOUTS = 6, MOST_ROUNDS = 200, TRIPS = 30, SLOTS = 256 };
static const struct { const char *name; loop *run; } packs[PACKS] = {
    {"wide", pack_wide_at_stride}, {"gather4", pack_gather4_at_stride}, {"gather8", pack_gather8_at_stride},
}, unpacks[UNPACKS] = {
    {"wide", unpack_wide_at_stride}, {"scatter8", unpack_scatter8_at_stride}, {"scatter2", unpack_scatter2_at_stride},
};
static const long pieces[PIECES] = {2 << 10, 4 << 10, 8 << 10, 16 << 10};

/* A line that says which message's piece lies in a slot, or whose turn it is. */
struct flag {
    long value;
    char rest[120];
};
static struct shared {
    struct flag turn, slots[SLOTS];
    char room[SLOTS * 8192];
} *shared;

static void await(const struct flag *flag, long value)
{
    while (__atomic_load_n(&flag->value, __ATOMIC_ACQUIRE) != value)
        _mm_pause();
}

static void tell(struct flag *flag, long value)
{
    __atomic_store_n(&flag->value, value, __ATOMIC_RELEASE);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Seconds of a bare line, one way. */
static double line(int me)
{
    static long turn;
    double began = now();
    for (int i = 0; i < 100; i++, turn += 2)
        if (me) {
            await(&shared->turn, turn + 1);
            tell(&shared->turn, turn + 2);
        } else {
            tell(&shared->turn, turn + 1);
            await(&shared->turn, turn + 2);
        }
    return (now() - began) / 200;
}

/* One message, from here or to here. */
static void message(int sends, const struct layout *of, loop *run, long piece)
{
    static long number;
    number++;
    for (long at = 0, slot = 0; at < of->count; at += piece, slot++) {
        struct layout part = *of;
        char *room = shared->room + slot * (piece * 8 + 128);
        part.count = of->count - at < piece ? of->count - at : piece;
        if (!sends) await(&shared->slots[slot], number);
        run(room, memory + at * of->stride, &part);
        if (sends) tell(&shared->slots[slot], number);
    }
}

int main(int argc, char **argv)
{
    static const struct layout layouts[LAYOUTS] = {
        {"vector1000", 8192, 8000, 0, NULL}, {"face-fast", 16384, 1024, 0, NULL}, {"face-fast-middle", 900, 240, 0, NULL},
        {"column", 1000, 8000, 0, NULL}, {"vector8", 32768, 64, 0, NULL}, {"vector8-middle", 8192, 64, 0, NULL},
    };
    enum { WAYS = PACKS * UNPACKS * PIECES };
    static double times[LAYOUTS][2][WAYS][MOST_ROUNDS];
    static int samples[LAYOUTS][2][WAYS];
    const char *wanted = argc > 1 ? argv[1] : "";
    int rounds = argc > 2 ? atoi(argv[2]) : 10, me;
    cpu_set_t set;
    if (rounds > MOST_ROUNDS) rounds = MOST_ROUNDS;
    if (!__builtin_cpu_supports("avx512dq")) {
        fprintf(stderr, "exchange: this processor lacks AVX-512, which half of the loops need\n");
        return 1;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    me = shared == MAP_FAILED ? -1 : fork() == 0;
    if (me == 1)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    CPU_ZERO(&set);
    CPU_SET(me, &set);
    if (me < 0 || sched_setaffinity(0, sizeof set, &set)) {
        perror("exchange: two processes on cores 0 and 1 with memory that they share");
        return 1;
    }
    memory = aligned_alloc(4096, SPAN);
    memset(memory, 1, SPAN);
    for (int round = 0; round < rounds; round++)
        for (int row = 0; row < LAYOUTS; row++)
            for (int way = 0; strstr(layouts[row].name, wanted) && way < WAYS; way++) {
                const struct layout *of = &layouts[row];
                loop *pack = packs[way / (UNPACKS * PIECES)].run, *unpack = unpacks[way / PIECES % UNPACKS].run;
                long piece = pieces[way % PIECES] / 8;
                int far = line(me) > 80e-9, trips = of->count > 4000 ? 6 : TRIPS;
                double took[TRIPS];
                for (int trip = 0; trip < trips; trip++) {
                    double began = now();
                    for (int from = 0; from < 2; from++)
                        message(from == me, of, from == me ? pack : unpack, piece);
                    took[trip] = (now() - began) / 2;
                }
                qsort(took, (size_t)trips, sizeof *took, ascending);
                times[row][far][way][samples[row][far][way]++] = took[trips / 4];
            }
    for (int row = 0; !me && row < LAYOUTS; row++)
        for (int far = 0; strstr(layouts[row].name, wanted) && far < 2; far++) {
            if (!samples[row][far][0]) continue;
            printf("%s %s, %d rounds; pieces of 2, 4, 8, 16 KiB, us one way\n", layouts[row].name, far ? "far" : "near", samples[row][far][0]);
            for (int way = 0; way < WAYS; way++) {
                int number = samples[row][far][way];
                qsort(times[row][far][way], (size_t)number, sizeof(double), ascending);
                if (way % PIECES == 0) printf("  %-8s %-9s", packs[way / (UNPACKS * PIECES)].name, unpacks[way / PIECES % UNPACKS].name);
                printf(number ? " %8.2f" : "        -", number ? times[row][far][way][number / 2] * 1e6 : 0);
                if (way % PIECES == PIECES - 1) printf("\n");
            }
        }
    if (!me) wait(NULL);
    return 0;
}
