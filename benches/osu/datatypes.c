/* Derived datatypes: pack, unpack and ping-pong of layouts that programs have.
 *
 * Like compare.c it times short batches and takes the 10th percentile, and prints a bare cache line beside each ping-pong;
 * `scripts/compare-peers --rows datatypes` runs it under each implementation in turn. Rank 0 packs and unpacks while rank 1
 * waits in a receive.
 *
 * Beside each layout stand a plain memcpy of as many bytes and a bare loop: the few lines a program would have that knows its
 * layout and no MPI. What a type's name ends in says where its memory fits: -near the first cache, -middle the second; the
 * others are larger, or lie on more pages than the processor remembers; beyond- is larger than all caches, to be held against stream.
 *
 * Output, one line for each row, by rank 0: NAME SIZE SECONDS BYTES MESSAGES LINE
 *   NAME     pack-, unpack- or pingpong- and the layout; barepack- and bareunpack- the bare loop; copy- the memcpy; stream is
 *            one core's memcpy beyond all caches; bareread- touches the lines of blocks beyond all caches and does no more,
 *            barewrite- reads each line of packed bytes and writes a double into each line of such blocks;
 *            touchpack- and touchunpack- (single doubles) touch each double and, once, each line of packed bytes: nothing that goes
 *            by these lines is faster, but where all is in the first cache and instructions count
 *   SIZE     bytes of data
 *   SECONDS  10th percentile of one call (half a round trip for ping-pong)
 *   BYTES    SIZE again, for a rate
 */
#define _GNU_SOURCE
#include "line.h"
#include <sched.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BATCHES = 4000, FEWEST_BATCHES = 15, LINE_TRIPS = 100, SPAN = 80 << 20 };

static double row_seconds = 30e-3;
static double samples[MOST_BATCHES];
static char *memory, *packed;

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

/* Memory on pages of 2 MiB, where the system gives them to whoever asks. */
static char *on_large_pages(size_t bytes)
{
    char *room = aligned_alloc(2 << 20, bytes);
    if (!room || madvise(room, bytes, MADV_HUGEPAGE))
        give_up("no pages of 2 MiB: see /sys/kernel/mm/transparent_hugepage/enabled");
    return room;
}

static double measure_line(void)
{
    int batch, i;
    MPI_Barrier(MPI_COMM_WORLD);
    for (batch = 0; batch < 60; batch++) {
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
    return tenth_percentile(60);
}

/* ---- layouts ---- */

struct particle {
    int kind;
    double place[6];
    char more[7];
};

static unsigned seed = 12345;
static unsigned below(unsigned limit)
{
    seed = seed * 1664525u + 1013904223u;
    return (unsigned)(((unsigned long long)seed * limit) >> 32);
}

static MPI_Datatype particle(void)
{
    static const int lengths[3] = {1, 6, 7};
    const MPI_Aint places[3] = {offsetof(struct particle, kind), offsetof(struct particle, place),
                                offsetof(struct particle, more)};
    const MPI_Datatype types[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    MPI_Datatype bare, type;
    MPI_Type_create_struct(3, lengths, places, types, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct particle), &type);
    MPI_Type_free(&bare);
    return type;
}

static MPI_Datatype vector(int number, int stride)
{
    MPI_Datatype type;
    MPI_Type_vector(number, 1, stride, MPI_DOUBLE, &type);
    return type;
}

/* Blocks of `length` doubles every `stride` doubles, over all of the memory. */
static MPI_Datatype blocks(int length, int stride)
{
    MPI_Datatype type;
    MPI_Type_vector(SPAN / 8 / stride, length, stride, MPI_DOUBLE, &type);
    return type;
}

/* The face of a cube of side^3 doubles where the index of one dimension (0: slowest) is 5. */
static MPI_Datatype face(int dimension, int side)
{
    int sizes[3] = {side, side, side}, subsizes[3] = {side, side, side}, starts[3] = {0, 0, 0};
    MPI_Datatype type;
    subsizes[dimension] = 1;
    starts[dimension] = 5;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    return type;
}

static int lengths[32768], places[32768];

/* `doubles` doubles in blocks that lie anywhere in `span` bytes, in no order. */
static MPI_Datatype scattered(int length, int doubles, int span)
{
    int i, number = doubles / length, slots = span / 8 / (2 * length);
    char *used = calloc((size_t)slots, 1);
    MPI_Datatype type;
    for (i = 0; i < number; i++) {
        unsigned slot;
        do
            slot = below((unsigned)slots);
        while (used[slot]);
        used[slot] = 1;
        lengths[i] = length;
        places[i] = (int)slot * 2 * length;
    }
    free(used);
    MPI_Type_indexed(number, lengths, places, MPI_DOUBLE, &type);
    return type;
}

static MPI_Datatype nested(void)
{
    MPI_Datatype inner = particle(), type;
    MPI_Type_vector(64, 16, 40, inner, &type);
    MPI_Type_free(&inner);
    return type;
}

/* Every layout: how it is made, and the numbers that a bare loop needs. */
enum shape { VECTOR, BLOCKS, FACE, STRUCT, SCATTERED, NESTED };
static const struct layout {
    const char *name;
    enum shape shape;
    int number, stride; /* elements and doubles between them; doubles of a block and from block to block; dimension and side; doubles of a block
                           and doubles in all */
    int span;           /* of scattered blocks */
} layouts[] = {
    {"vector2", VECTOR, 32768, 2, 0},
    {"vector2-near", VECTOR, 1024, 2, 0},
    {"vector8", VECTOR, 32768, 8, 0},
    {"vector8-near", VECTOR, 512, 8, 0},
    {"vector8-middle", VECTOR, 8192, 8, 0},
    {"vector1000", VECTOR, 8192, 1000, 0},
    {"column", VECTOR, 1000, 1000, 0},
    {"column-near", VECTOR, 100, 100, 0},
    {"face-slow", FACE, 0, 128, 0},
    {"face-middle", FACE, 1, 128, 0},
    {"face-fast", FACE, 2, 128, 0},
    {"face-fast-middle", FACE, 2, 30, 0},
    {"struct", STRUCT, 2000, 0, 0},
    {"struct-near", STRUCT, 100, 0, 0},
    {"indexed1", SCATTERED, 1, 32768, 16 << 20},
    {"indexed1-near", SCATTERED, 1, 512, 32 << 10},
    {"indexed1-middle", SCATTERED, 1, 4096, 512 << 10},
    {"indexed4", SCATTERED, 4, 32768, 16 << 20},
    {"indexed4-near", SCATTERED, 4, 1024, 16 << 10},
    {"indexed8", SCATTERED, 8, 32768, 16 << 20},
    {"indexed8-near", SCATTERED, 8, 1024, 16 << 10},
    {"indexed64", SCATTERED, 64, 32768, 16 << 20},
    {"nested", NESTED, 64, 16, 0},
    {"beyond4", BLOCKS, 4, 8, 0},
    {"beyond8", BLOCKS, 8, 16, 0},
    {"beyond64", BLOCKS, 64, 128, 0},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static MPI_Datatype make(const struct layout *of, int *count)
{
    *count = of->shape == STRUCT ? of->number : 1;
    switch (of->shape) {
    case VECTOR: return vector(of->number, of->stride);
    case BLOCKS: return blocks(of->number, of->stride);
    case FACE: return face(of->number, of->stride);
    case STRUCT: return particle();
    case SCATTERED: return scattered(of->number, of->stride, of->span);
    default: return nested();
    }
}

/* One particle to or from packed bytes. */
static char *bare_particle(int pack, struct particle *here, char *at)
{
    if (pack) {
        memcpy(at, &here->kind, 4);
        memcpy(at + 4, here->place, 48);
        memcpy(at + 52, here->more, 7);
    } else {
        memcpy(&here->kind, at, 4);
        memcpy(here->place, at + 4, 48);
        memcpy(here->more, at + 52, 7);
    }
    return at + 59;
}

/* Blocks of `length` doubles every `stride` doubles to or from packed ones. */
static void bare_blocks(int pack, double *here, double *at, long length, long stride)
{
    long i;
    for (i = 0; i < SPAN / 8 / stride; i++)
        memcpy(pack ? at + i * length : here + i * stride, pack ? here + i * stride : at + i * length, (size_t)length * 8);
}

/* A number of each line of such blocks, and nothing else: no packing is faster where memory is what one waits for. */
static void bare_read(const double *here, long length, long stride)
{
    long i, j;
    for (i = 0; i < SPAN / 8 / stride; i++)
        for (j = 0; j < length; j += 8)
            *(volatile const double *)(here + i * stride + j);
}

/* Doubles of which each lies by itself: one access each, `stride` doubles or `listed` numbers apart, and one for each line of packed ones. */
static void touch(int pack, double *here, double *at, const int *listed, long number, long stride)
{
    long i, j;
    for (i = 0; i + 8 <= number; i += 8) {
        if (pack)
            *(volatile double *)(at + i) = 1;
        else
            *(volatile const double *)(at + i);
        for (j = i; j < i + 8; j++) {
            double *one = here + (listed ? listed[j] : j * stride);
            if (pack)
                *(volatile const double *)one;
            else
                *(volatile double *)one = 1;
        }
    }
}

static int is_single(const struct layout *of)
{
    return of->shape == VECTOR || (of->shape == FACE && of->number == 2) || (of->shape == SCATTERED && of->number == 1);
}

/* The lines that unpacking has to touch: each packed one read, each of the blocks written. */
static void bare_write(double *here, const double *from, long length, long stride)
{
    long i, j, lines = length / 8;
    for (i = 0; i < SPAN / 8 / stride; i++, from += length) {
        for (j = 0; j < length; j += 8)
            *(volatile double *)(here + i * stride + j) = 1;
        if (lines > 0 || i * length % 8 == 0)
            for (j = 0; j < length; j += 8)
                *(volatile const double *)(from + j);
    }
}
static void touch_layout(int pack, const struct layout *of)
{
    double *here = (double *)memory, *at = (double *)packed;
    switch (of->shape) {
    case VECTOR: touch(pack, here, at, NULL, of->number, of->stride); break;
    case FACE: touch(pack, here + 5, at, NULL, (long)of->stride * of->stride, of->stride); break;
    default: touch(pack, here, at, places, of->stride, 0);
    }
}

/* `number` doubles `stride` apart to or from packed ones. */
static double *bare_vector(int pack, double *here, double *at, long number, long stride)
{
    long i;
    if (pack)
        for (i = 0; i < number; i++)
            at[i] = here[i * stride];
    else
        for (i = 0; i < number; i++)
            here[i * stride] = at[i];
    return at + number;
}

static void bare(int pack, const struct layout *of)
{
    double *here = (double *)memory, *at = (double *)packed;
    struct particle *particles = (struct particle *)memory;
    char *bytes = packed;
    long i, j, side = of->stride, number;
    switch (of->shape) {
    case VECTOR: bare_vector(pack, here, at, of->number, of->stride); break;
    case BLOCKS:
        switch (of->number) {
        case 4: bare_blocks(pack, here, at, 4, of->stride); break;
        case 8: bare_blocks(pack, here, at, 8, of->stride); break;
        default: bare_blocks(pack, here, at, of->number, of->stride);
        }
        break;
    case FACE:
        if (of->number == 2)
            bare_vector(pack, here + 5, at, side * side, side);
        else
            for (i = 0; i < side; i++) {
                double *row = here + (of->number ? i * side * side + 5 * side : 5 * side * side + i * side);
                memcpy(pack ? at + i * side : row, pack ? row : at + i * side, (size_t)side * 8);
            }
        break;
    case STRUCT:
        for (i = 0; i < of->number; i++)
            bytes = bare_particle(pack, particles + i, bytes);
        break;
    case SCATTERED:
        number = of->stride / of->number;
        switch (of->number) {
        case 1:
            for (i = 0; i < number; i++)
                *(pack ? at + i : here + places[i]) = *(pack ? here + places[i] : at + i);
            break;
        case 4:
            for (i = 0; i < number; i++)
                memcpy(pack ? at + i * 4 : here + places[i], pack ? here + places[i] : at + i * 4, 32);
            break;
        case 8:
            for (i = 0; i < number; i++)
                memcpy(pack ? at + i * 8 : here + places[i], pack ? here + places[i] : at + i * 8, 64);
            break;
        default:
            for (i = 0; i < number; i++)
                memcpy(pack ? at + i * of->number : here + places[i], pack ? here + places[i] : at + i * of->number,
                       (size_t)of->number * 8);
        }
        break;
    default:
        for (i = 0; i < 64; i++)
            for (j = 0; j < 16; j++)
                bytes = bare_particle(pack, particles + i * 40 + j, bytes);
    }
    __asm__ volatile("" : : "r"(packed), "r"(memory) : "memory");
}

/* ---- rows ---- */

enum { PACK, UNPACK, BARE_PACK, BARE_UNPACK, TOUCH_PACK, TOUCH_UNPACK, BARE_READ, BARE_WRITE, COPY, PING_PONG, KINDS };
static const char *const kinds[] = {"pack",        "unpack",   "barepack", "bareunpack", "touchpack",
                                    "touchunpack", "bareread", "barewrite", "copy",     "pingpong"};

static void once(int kind, const struct layout *of, int count, MPI_Datatype type, int size)
{
    int position = 0;
    switch (kind) {
    case PACK: MPI_Pack(memory, count, type, packed, size, &position, MPI_COMM_WORLD); break;
    case UNPACK: MPI_Unpack(packed, size, &position, memory, count, type, MPI_COMM_WORLD); break;
    case BARE_PACK: bare(1, of); break;
    case BARE_UNPACK: bare(0, of); break;
    case TOUCH_PACK: touch_layout(1, of); break;
    case TOUCH_UNPACK: touch_layout(0, of); break;
    case BARE_READ: bare_read((const double *)memory, of->number, of->stride); break;
    case BARE_WRITE: bare_write((double *)memory, (const double *)packed, of->number, of->stride); break;
    case COPY:
        memcpy(packed, memory, (size_t)size);
        __asm__ volatile("" : : "r"(packed) : "memory");
        break;
    default:
        if (rank == 0) {
            MPI_Send(memory, count, type, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(memory, count, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(memory, count, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(memory, count, type, 0, 1, MPI_COMM_WORLD);
        }
    }
}

/* Whether `name` has one of the parts that are asked for, between commas in `wanted` (empty: every name). */
static int is_wanted(const char *name, const char *wanted)
{
    char part[64];
    size_t length;
    do {
        length = strcspn(wanted, ",");
        snprintf(part, sizeof part, "%.*s", (int)length, wanted);
        if (strstr(name, part))
            return 1;
        wanted += length;
    } while (*wanted++);
    return 0;
}

static void measure(int kind, const struct layout *of)
{
    int plan[2] = {1, FEWEST_BATCHES}, i, batch, count, size;
    MPI_Datatype type = make(of, &count);
    double line = 0, took;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    size *= count;
    if (kind == PING_PONG)
        line = measure_line();
    if (kind == PING_PONG || rank == 0) {
        for (i = 0; i < 5; i++) {
            double began = now();
            once(kind, of, count, type, size);
            samples[i] = now() - began;
        }
        took = tenth_percentile(5);
        plan[0] = took < 40e-6 ? (int)(40e-6 / took) + 1 : 1;
        plan[1] = (int)(row_seconds / (took * plan[0]));
        plan[1] = plan[1] < FEWEST_BATCHES ? FEWEST_BATCHES : plan[1] > MOST_BATCHES ? MOST_BATCHES : plan[1];
    }
    MPI_Bcast(plan, 2, MPI_INT, 0, MPI_COMM_WORLD);
    if (kind == PING_PONG || rank == 0)
        for (batch = 0; batch < plan[1]; batch++) {
            double began = now();
            for (i = 0; i < plan[0]; i++)
                once(kind, of, count, type, size);
            samples[batch] = (now() - began) / plan[0];
        }
    if (rank == 0) {
        took = tenth_percentile(plan[1]) * (kind == PING_PONG ? 0.5 : 1);
        printf("%s-%s %d %.9g %d 1 %.9g\n", kinds[kind], of->name, size, took, size, line);
        fflush(stdout);
    }
    MPI_Type_free(&type);
}

/* One core's copy beyond all caches. */
static void measure_stream(void)
{
    const size_t half = SPAN / 2;
    int batch;
    if (rank)
        return;
    for (batch = 0; batch < 5; batch++) {
        double began = now();
        memcpy(memory + half, memory, half);
        __asm__ volatile("" : : "r"(memory) : "memory");
        samples[batch] = now() - began;
    }
    printf("copy-stream %zu %.9g %zu 1 0\n", half, tenth_percentile(5), half);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *wanted = "", *cores = "", *pages = "";
    int i, which, kind;
    cpu_set_t set;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--rows"))
            wanted = argv[i + 1];
        else if (!strcmp(argv[i], "--cores"))
            cores = argv[i + 1];
        else if (!strcmp(argv[i], "--pages"))
            pages = argv[i + 1];
        else if (!strcmp(argv[i], "--time"))
            row_seconds = atof(argv[i + 1]) * 1e-3;
        else
            i = argc;
    }
    if (i > argc || ranks != 2)
        give_up("usage: mpiexec -n 2 ./datatypes [--rows PARTS OF NAMES, with commas] [--cores 0,1] [--time MILLISECONDS of a row] [--pages large]");
    if (*cores) {
        const char *second = strchr(cores, ',');
        CPU_ZERO(&set);
        CPU_SET(atoi(rank == 1 && second ? second + 1 : cores), &set);
        if (sched_setaffinity(0, sizeof set, &set))
            give_up("datatypes: cannot bind to %s", cores);
    }
    memory = *pages ? on_large_pages(SPAN) : buffer(SPAN);
    packed = *pages ? on_large_pages(SPAN / 2) : buffer(SPAN / 2);
    memset(memory, 1, SPAN);
    memset(packed, 1, SPAN / 2);
    share_line();
    for (which = 0; which < LAYOUTS; which++)
        for (kind = 0; kind < KINDS; kind++) {
            char name[64];
            snprintf(name, sizeof name, "%s-%s", kinds[kind], layouts[which].name);
            if ((kind == BARE_READ || kind == BARE_WRITE) && layouts[which].shape != BLOCKS)
                continue;
            if ((kind == TOUCH_PACK || kind == TOUCH_UNPACK) && !is_single(&layouts[which]))
                continue;
            if (is_wanted(name, wanted))
                measure(kind, layouts + which);
        }
    if (is_wanted("copy-stream", wanted))
        measure_stream();
    MPI_Finalize();
    return 0;
}
