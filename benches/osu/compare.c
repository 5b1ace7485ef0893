/* Measures many rows in one job, so that two implementations can be compared on a machine that is never quiet.
 *
 * Each row is timed in short batches (about 40 us), of which there are many; the 10th percentile is what the machine can do
 * when nobody disturbs it. Beside every row a bare cache line is passed to and fro between the same two cores, without
 * any MPI: what is compared across jobs is the row divided by that. Beside rows of long messages bytes are copied from one core to the
 * other, too: how fast that goes changes by a factor of two and more while a line takes as long as before. `scripts/compare-peers` starts
 * this program under each implementation in turn and takes the median of the ratios.
 *
 * Output, one line for each row, by rank 0: NAME SIZE SECONDS BYTES MESSAGES LINE COPY
 *   SECONDS  10th percentile of the time of one operation (half a round trip, one window, one collective call)
 *   BYTES, MESSAGES  what one operation moves, 0 for collectives
 *   LINE     one-way time of the bare cache line, in seconds
 *   COPY     seconds of a KiB of the bare copy, 0 where it was not measured
 */
#define _GNU_SOURCE
#include "compute.h"
#include "line.h"
#include "operations.h"
#include "pairs.h"
#include <sched.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BATCHES = 20000, FEWEST_BATCHES = 12, LINE_TRIPS = 100, MOST_TRIES = 3 };
#define ALIKE 1.25 /* as in scripts/compare-peers */
enum { SHORT = 1024 }; /* the same: longer messages are bound by copying */

static double batch_seconds = 40e-6; /* about how long one batch shall be */
static double row_seconds = 30e-3;   /* about how long one row shall be measured */
static double samples[MOST_BATCHES];
static MPI_Request *requests;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double tenth_percentile(int count)
{
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    return samples[count / 10];
}

static int alike(double a, double b)
{
    return a <= ALIKE * b && b <= ALIKE * a;
}

/* Binds this rank to the core of its turn in the list "a,b,...". */
static void bind_to(const char *cores)
{
    int list[64], count = 0;
    char *end;
    cpu_set_t set;
    while (count < 64 && *cores) {
        list[count++] = (int)strtol(cores, &end, 10);
        if (end == cores)
            give_up("compare: --cores needs numbers with commas between them");
        cores = *end ? end + 1 : end;
    }
    if (!count)
        return;
    CPU_ZERO(&set);
    CPU_SET(list[rank % count], &set);
    if (sched_setaffinity(0, sizeof set, &set))
        give_up("compare: cannot bind to core %d", list[rank % count]);
}

/* ---- the bare cache line ---- */

/* Lets the ranks beyond the first two sleep, outside MPI, until those have measured the line: they share the two cores with them. */
static void sleep_meanwhile(int measured)
{
    const struct timespec nap = {0, 200000};
    while (__atomic_load_n(&line[3].turn, __ATOMIC_ACQUIRE) < measured)
        nanosleep(&nap, NULL);
}

/* One-way time of the line between ranks 0 and 1. */
static double measure_line(void)
{
    static int measured;
    int batch, i, batches = 60;
    if (!line)
        return 0;
    measured++;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 1) {
        sleep_meanwhile(measured);
        return 0;
    }
    for (batch = 0; batch < batches; batch++) {
        double began = now();
        for (i = 0; i < LINE_TRIPS; i++) {
            if (rank == 0) {
                give_turn(1);
                await_turn(0);
            } else {
                await_turn(1);
                give_turn(0);
            }
        }
        samples[batch] = (now() - began) / (2 * LINE_TRIPS);
    }
    if (rank == 0)
        __atomic_store_n(&line[3].turn, measured, __ATOMIC_RELEASE);
    return tenth_percentile(batches);
}

/* ---- the bare copy ---- */

/* Bytes to or from the shared room. Not inlined, so that both ends use the same memcpy. */
static void __attribute__((noinline)) copy_piece(char *to, const char *from)
{
    memcpy(to, from, STREAM_PIECE);
}

/* Seconds of a KiB that rank 0 copies into shared memory while rank 1 copies what came before out of it. */
static double measure_copy(void)
{
    enum { BATCHES = 12, PIECES = 64 };
    static int moved;
    static char own[STREAM_PIECE];
    struct line *written = &line[4], *read = &line[5];
    char *room = (char *)line + 4096;
    int batch, i;
    if (!line || ranks != 2)
        return 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (batch = 0; batch < BATCHES; batch++) {
        double began = now();
        for (i = 0; i < PIECES; i++, moved++) {
            char *place = room + (size_t)(moved % STREAM_PLACES) * STREAM_PIECE;
            if (rank == 0) {
                while (moved - __atomic_load_n(&read->turn, __ATOMIC_ACQUIRE) >= STREAM_PLACES)
                    pause_a_little();
                copy_piece(place, own);
                __atomic_store_n(&written->turn, moved + 1, __ATOMIC_RELEASE);
            } else {
                while (__atomic_load_n(&written->turn, __ATOMIC_ACQUIRE) <= moved)
                    pause_a_little();
                copy_piece(own, place);
                __atomic_store_n(&read->turn, moved + 1, __ATOMIC_RELEASE);
            }
        }
        while (rank == 0 && __atomic_load_n(&read->turn, __ATOMIC_ACQUIRE) != moved)
            pause_a_little();
        samples[batch] = (now() - began) / (PIECES * (STREAM_PIECE >> 10));
    }
    return tenth_percentile(BATCHES);
}

/* ---- the rows ---- */

static char *out, *in;

static void one_latency(size_t size)
{
    ping_pong(out, in, (int)size);
}

/* What a short message costs without any MPI, where each rank writes to lines of its own and reads the other's: a line for each direction. That
 * is about twice the bare line: between two ranks that write to the same line, reading it brings the right to write along. */
static void one_round_of_lines(size_t size)
{
    struct line *mine = &line[1 + rank], *theirs = &line[2 - rank];
    int turn = mine->turn + 1;
    (void)size;
    if (rank == 0)
        __atomic_store_n(&mine->turn, turn, __ATOMIC_RELEASE);
    while (__atomic_load_n(&theirs->turn, __ATOMIC_ACQUIRE) != turn)
        pause_a_little();
    if (rank == 1)
        __atomic_store_n(&mine->turn, turn, __ATOMIC_RELEASE);
}

static void one_bandwidth(size_t size)
{
    window_of_messages(out, in, (int)size, 0, 0, requests);
}

static void one_both_ways(size_t size)
{
    window_of_messages(out, in, (int)size, 0, 1, requests);
}

enum { PARTITIONS = 8 };
static MPI_Request partitioned[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; /* send, receive */
static size_t partitioned_size;

static void free_partitioned(void)
{
    int i;
    for (i = 0; i < 2; i++)
        if (partitioned[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&partitioned[i]);
}

/* A round trip of messages in eight partitions, each marked on its own. */
static void one_partitioned(size_t size)
{
    int part = (int)(size / PARTITIONS), turn, i;
    if (size != partitioned_size) {
        free_partitioned();
        MPI_Psend_init(out, PARTITIONS, part, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned[0]);
        MPI_Precv_init(in, PARTITIONS, part, MPI_CHAR, partner(), TAG_DATA, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned[1]);
        partitioned_size = size;
    }
    for (turn = 0; turn < 2; turn++) {
        if ((turn == 0) == lower_half()) {
            MPI_Start(&partitioned[0]);
            for (i = 0; i < PARTITIONS; i++)
                MPI_Pready(i, partitioned[0]);
            MPI_Wait(&partitioned[0], MPI_STATUS_IGNORE);
        } else {
            MPI_Start(&partitioned[1]);
            MPI_Wait(&partitioned[1], MPI_STATUS_IGNORE);
        }
    }
}

/* ---- collectives: NAME blocking, i-NAME started and completed, p-NAME a persistent one, overlap-NAME what a nonblocking one adds to
 * a computation that takes as long as it does alone ---- */

enum kind { OF_PAIRS, CALL, START_AND_WAIT, PERSISTENT_START, OVERLAP };

static const struct operation *operation;
/* One for each root, and started in turn. */
enum { MOST_ROOTS = 64 };
static MPI_Request persistent[MOST_ROOTS];
static double compute_seconds; /* as long as the computation takes alone */

/* The root of a rooted operation: the next rank with every call. With one root for all calls it would send, or the others would,
 * without ever waiting, and the row would be a rate of issue instead of a time. Between two ranks, two calls are a round trip. */
static int next_root(void)
{
    static int calls;
    return calls++ % ranks;
}

static void one_call(size_t size)
{
    operation->run(size, next_root(), BLOCKING, NULL);
}

static void one_start_and_wait(size_t size)
{
    MPI_Request request;
    operation->run(size, next_root(), NONBLOCKING, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void one_persistent_start(size_t size)
{
    (void)size;
    MPI_Request *request = &persistent[next_root() % MOST_ROOTS];
    MPI_Start(request);
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void one_overlapped(size_t size)
{
    MPI_Request request;
    operation->run(size, next_root(), NONBLOCKING, &request);
    compute((long)(compute_seconds * steps_per_second));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void one_ring(size_t size)
{
    int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
    if (rank == 0)
        MPI_Send(out, (int)size, MPI_CHAR, next, 1, MPI_COMM_WORLD);
    MPI_Recv(in, (int)size, MPI_CHAR, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0)
        MPI_Send(out, (int)size, MPI_CHAR, next, 1, MPI_COMM_WORLD);
}

struct row {
    char name[64];
    void (*one)(size_t);
    int pair;     /* needs exactly two ranks */
    int windows;  /* messages in flight one way; both ways when 2 */
    int sizeless; /* one row, of size 0 */
    double part;  /* of one operation in what is reported: half a round trip */
    enum kind kind;
    const struct operation *operation;
};

static const struct row pairs[] = {
    {"latency", one_latency, 1, 0, 0, 0.5, OF_PAIRS, NULL},   {"bw", one_bandwidth, 1, 1, 0, 1, OF_PAIRS, NULL},
    {"bibw", one_both_ways, 1, 2, 0, 1, OF_PAIRS, NULL},      {"part8", one_partitioned, 1, 0, 0, 0.5, OF_PAIRS, NULL},
    {"ring", one_ring, 0, 0, 0, 1, OF_PAIRS, NULL},           {"lines", one_round_of_lines, 1, 0, 1, 0.5, OF_PAIRS, NULL},
};
static const struct {
    const char *prefix;
    void (*one)(size_t);
    enum kind kind;
} kinds[] = {
    {"", one_call, CALL},
    {"i-", one_start_and_wait, START_AND_WAIT},
    {"p-", one_persistent_start, PERSISTENT_START},
    {"overlap-", one_overlapped, OVERLAP},
};
enum { PAIRS = sizeof pairs / sizeof *pairs, KINDS = sizeof kinds / sizeof *kinds, ROWS = PAIRS + KINDS * OPERATIONS };
static struct row rows[ROWS];

static void list_rows(void)
{
    int k, of, count = 0;
    for (k = 0; k < PAIRS; k++)
        rows[count++] = pairs[k];
    for (k = 0; k < KINDS; k++)
        for (of = 0; of < OPERATIONS; of++) {
            struct row *row = &rows[count++];
            *row = (struct row){.one = kinds[k].one, .sizeless = operations[of].sizeless, .part = 1, .kind = kinds[k].kind,
                                .operation = &operations[of]};
            snprintf(row->name, sizeof row->name, "%s%s", kinds[k].prefix, operations[of].name);
        }
}

/* Seconds of one operation: the 10th percentile of batches of some calls. All ranks do the same number, which rank 0 decides. */
static double time_of(const struct row *row, size_t size)
{
    int plan[2], i, batch, calls; /* plan: operations in a batch, batches */
    double took, once = 0;

    /* The first calls pay for connections, the next show about how long one takes; slow ones need few. */
    for (i = 0, calls = 5; i < calls; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        once = now();
        row->one(size);
        samples[i] = now() - once;
        if (i == 4) {
            once = tenth_percentile(5);
            calls = once < 1e-3 ? 20 : 5;
            MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
    once = tenth_percentile(calls);
    plan[0] = once < batch_seconds ? (int)(batch_seconds / (once + 1e-9)) : 1;
    if (plan[0] > 1000)
        plan[0] = 1000;
    /* Every rank is the root equally often in a batch, or the 10th percentile would be that of the ranks that need not wait. */
    plan[0] = (plan[0] + ranks - 1) / ranks * ranks;
    took = plan[0] * once;
    plan[1] = (int)(row_seconds / (took + 1e-9));
    plan[1] = plan[1] < FEWEST_BATCHES ? FEWEST_BATCHES : plan[1] > MOST_BATCHES ? MOST_BATCHES : plan[1];
    MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);

    MPI_Barrier(MPI_COMM_WORLD);
    for (batch = 0; batch < plan[1]; batch++) {
        double began = now();
        for (i = 0; i < plan[0]; i++)
            row->one(size);
        samples[batch] = (now() - began) / plan[0];
    }
    return tenth_percentile(plan[1]);
}

/* Measures one row and prints it; again when the cores have been moved meanwhile. */
static void measure(const struct row *row, size_t size)
{
    int long_ones = size > SHORT && ranks == 2;
    double took = 0, bare = measure_line(), bare_after = bare;
    double copy = long_ones ? measure_copy() : 0, copy_after = copy;
    int moved, tries, root, roots = ranks < MOST_ROOTS ? ranks : MOST_ROOTS;

    options.window = 64;
    while (options.window > 4 && (size_t)options.window * size > ((size_t)8 << 20))
        options.window /= 2;
    operation = row->operation;
    if (operation)
        set_size(operation, size);
#if MPI_VERSION < 4
    if (row->kind == PERSISTENT_START)
        return;
#endif
    for (root = 0; row->kind == PERSISTENT_START && root < roots; root++)
        operation->run(size, root, PERSISTENT, &persistent[root]);
    for (tries = 0; tries < MOST_TRIES; tries++) {
        compute_seconds = 0;
        took = time_of(row, size) * row->part;
        if (row->kind == OVERLAP) {
            compute_seconds = took;
            MPI_Bcast(&compute_seconds, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            took = time_of(row, size) - compute_seconds;
            took = took < 1e-9 ? 1e-9 : took;
        }
        bare_after = measure_line();
        copy_after = long_ones ? measure_copy() : 0;
        moved = !alike(bare, bare_after) || !alike(copy, copy_after);
        MPI_Bcast(&moved, 1, MPI_INT, 0, MPI_COMM_WORLD);
        if (!moved)
            break;
        bare = bare_after;
        copy = copy_after;
    }
    for (root = 0; row->kind == PERSISTENT_START && root < roots; root++)
        MPI_Request_free(&persistent[root]);
    if (rank == 0) {
        int messages = options.window * row->windows;
        printf("%s %zu %.9g %.0f %d %.9g %.9g\n", row->name, size, took, (double)messages * (double)size, messages,
               bare < bare_after ? bare : bare_after, copy < copy_after ? copy : copy_after);
        fflush(stdout);
    }
}

static int in_list(const char *list, const char *word)
{
    size_t length = strlen(word);
    const char *at = list;
    while ((at = strstr(at, word))) {
        if ((at == list || at[-1] == ',') && (at[length] == ',' || !at[length]))
            return 1;
        at += length;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *names = "latency,bw,bibw,barrier,allreduce", *sizes = "8,1K,64K,1M", *cores = "";
    size_t list[64], most = 8, k, s, count = 0;
    int i;
    char *end;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && !strcmp(argv[i], "--rows"))
            names = value;
        else if (value && !strcmp(argv[i], "--sizes"))
            sizes = value;
        else if (value && !strcmp(argv[i], "--cores"))
            cores = value;
        else if (value && !strcmp(argv[i], "--batch"))
            batch_seconds = atof(value) * 1e-6;
        else if (value && !strcmp(argv[i], "--time"))
            row_seconds = atof(value) * 1e-3;
        else
            give_up("usage: mpiexec -n 2 ./compare [--rows latency,lines,bw,bibw,part8,ring,OPERATION,i-OPERATION,p-OPERATION,overlap-OPERATION,...]\n"
                    "           [--sizes 8,1K,...] [--cores 0,1] [--batch MICROSECONDS] [--time MILLISECONDS of a row]\n"
                    "`scripts/compare-peers` runs it under several implementations and compares.");
    }
    while (*sizes && count < 64) {
        long long size = parse_size(sizes, &end);
        if (size < 0 || size > 1 << 28 || (*end && *end != ','))
            give_up("compare: --sizes needs sizes up to 256M with commas between them");
        list[count++] = (size_t)size;
        most = (size_t)size > most ? (size_t)size : most;
        sizes = *end ? end + 1 : end;
    }
    /* Not before MPI_Init: a library that binds its ranks itself would undo it. */
    bind_to(cores);
    /* Two blocks at least: a rank has two neighbours. */
    out = buffer(most * (ranks > 2 ? ranks : 2));
    in = buffer(most * (ranks > 2 ? ranks : 2));
    requests = malloc(sizeof *requests * 2 * 64);
    share_line();
    list_rows();
    calibrate();
    make_operands(out, in);
    for (k = 0; k < ROWS; k++) {
        if (!in_list(names, rows[k].name) || (rows[k].pair && ranks != 2))
            continue;
        for (s = 0; s < (rows[k].sizeless ? 1 : count); s++)
            measure(&rows[k], rows[k].sizeless ? 0 : list[s]);
    }
    free_partitioned();
    free_operands();
    MPI_Finalize();
    return 0;
}
