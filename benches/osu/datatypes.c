/* Derived datatypes: pack, unpack and ping-pong of layouts that programs have.
 *
 * Like compare.c it times short batches and takes the 10th percentile, and prints a bare cache line beside each ping-pong;
 * `scripts/compare-peers --rows datatypes` runs it under each implementation in turn. Rank 0 packs and unpacks while rank 1
 * waits in a receive.
 *
 * Output, one line for each row, by rank 0: NAME SIZE SECONDS BYTES MESSAGES LINE
 *   NAME     pack-, unpack- or pingpong- and the layout; copy is the plain memcpy of as many bytes beside each layout
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

/* The face of a cube of 128^3 doubles where the index of one dimension (0: slowest) is 5. */
static MPI_Datatype face(int dimension)
{
    int sizes[3] = {128, 128, 128}, subsizes[3] = {128, 128, 128}, starts[3] = {0, 0, 0};
    MPI_Datatype type;
    subsizes[dimension] = 1;
    starts[dimension] = 5;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
    return type;
}

/* 32768 doubles in blocks that lie anywhere in 16 MiB, in no order. */
static MPI_Datatype scattered(int length)
{
    static int lengths[32768], places[32768];
    int i, number = 32768 / length, slots = (2 << 20) / (2 * length);
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

static MPI_Datatype make(int which, int *count)
{
    *count = 1;
    switch (which) {
    case 0: return vector(32768, 2);
    case 1: return vector(32768, 8);
    case 2: return vector(8192, 1000);
    case 3: return vector(1000, 1000);
    case 4: return face(0);
    case 5: return face(1);
    case 6: return face(2);
    case 7: *count = 2000; return particle();
    case 8: return scattered(1);
    case 9: return scattered(8);
    case 10: return scattered(64);
    case 11: return nested();
    default: return MPI_DATATYPE_NULL;
    }
}

static const char *const names[] = {"vector2", "vector8",  "vector1000", "column",    "face-slow", "face-middle",
                                    "face-fast", "struct", "indexed1",   "indexed8", "indexed64", "nested"};
enum { LAYOUTS = sizeof names / sizeof *names };

/* ---- rows ---- */

enum { PACK, UNPACK, COPY, PING_PONG, KINDS };
static const char *const kinds[] = {"pack", "unpack", "copy", "pingpong"};

static void once(int kind, int count, MPI_Datatype type, int size)
{
    int position = 0;
    switch (kind) {
    case PACK: MPI_Pack(memory, count, type, packed, size, &position, MPI_COMM_WORLD); break;
    case UNPACK: MPI_Unpack(packed, size, &position, memory, count, type, MPI_COMM_WORLD); break;
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

static void measure(int kind, int which)
{
    int plan[2] = {1, FEWEST_BATCHES}, i, batch, count, size;
    MPI_Datatype type = make(which, &count);
    double line = 0, took;
    MPI_Type_commit(&type);
    MPI_Type_size(type, &size);
    size *= count;
    if (kind == PING_PONG)
        line = measure_line();
    if (kind == PING_PONG || rank == 0) {
        for (i = 0; i < 5; i++) {
            double began = now();
            once(kind, count, type, size);
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
                once(kind, count, type, size);
            samples[batch] = (now() - began) / plan[0];
        }
    if (rank == 0) {
        took = tenth_percentile(plan[1]) * (kind == PING_PONG ? 0.5 : 1);
        printf("%s-%s %d %.9g %d 1 %.9g\n", kinds[kind], names[which], size, took, size, line);
        fflush(stdout);
    }
    MPI_Type_free(&type);
}

int main(int argc, char **argv)
{
    const char *wanted = "", *cores = "";
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
        else if (!strcmp(argv[i], "--time"))
            row_seconds = atof(argv[i + 1]) * 1e-3;
        else
            i = argc;
    }
    if (i > argc || ranks != 2)
        give_up("usage: mpiexec -n 2 ./datatypes [--rows PART OF A NAME] [--cores 0,1] [--time MILLISECONDS of a row]");
    if (*cores) {
        const char *second = strchr(cores, ',');
        CPU_ZERO(&set);
        CPU_SET(atoi(rank == 1 && second ? second + 1 : cores), &set);
        if (sched_setaffinity(0, sizeof set, &set))
            give_up("datatypes: cannot bind to %s", cores);
    }
    memory = buffer(SPAN);
    packed = buffer(4 << 20);
    memset(memory, 1, SPAN);
    memset(packed, 1, 4 << 20);
    share_line();
    for (which = 0; which < LAYOUTS; which++)
        for (kind = 0; kind < KINDS; kind++) {
            char name[64];
            snprintf(name, sizeof name, "%s-%s", kinds[kind], names[which]);
            if (strstr(name, wanted))
                measure(kind, which);
        }
    MPI_Finalize();
    return 0;
}
