/* What the benchmarks of this folder share: options, buffers with a checkable pattern, the table they print.
 *
 * Plain MPI and C99, so that any implementation's mpicc builds every program:
 *     mpicc -O2 -o latency latency.c
 * A program describes itself in a `struct program` and gives it to `start`.
 */
#ifndef WEFT_BENCH_COMMON_H
#define WEFT_BENCH_COMMON_H

#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 6, LARGE = 8192, CHECKED_MESSAGES = 8 };

/* What one benchmark is, for its help text, its table and its demands on the number of ranks. */
struct program {
    const char *name;
    const char *purpose;             /* one sentence */
    const char *method;              /* how the figure comes about */
    const char *columns[MAX_COLUMNS]; /* headings after "Size" */
    int sized;                       /* has a row for each message size */
    int least_ranks;                 /* fewest ranks */
    int even;                        /* the number of ranks must be even */
    int windowed;                    /* understands -W */
    size_t min, max;                 /* default message sizes in bytes */
    const char *operands;            /* names of required words after the options, or NULL */
};

struct options {
    size_t min, max; /* message sizes in bytes */
    int iterations;  /* 0: as the size asks for */
    int warmup;      /* -1: as the size asks for */
    int window;      /* messages in flight */
    int check;       /* compare the data received */
    int csv;         /* comma-separated output */
    const char *operand;
};

static struct options options;
static int rank, ranks;
static long wrong_bytes; /* found by this rank */

/* Prints on rank 0 and ends all ranks. */
static void give_up(const char *format, ...)
{
    va_list words;
    if (rank == 0) {
        va_start(words, format);
        vfprintf(stderr, format, words);
        va_end(words);
        fputc('\n', stderr);
    }
    MPI_Finalize();
    exit(2);
}

static void print_help(const struct program *p)
{
    printf("%s: %s\n\n%s\n\n", p->name, p->purpose, p->method);
    printf("Usage: mpiexec -n %d ./%s [options]%s%s\n", p->least_ranks, p->name, p->operands ? " " : "",
           p->operands ? p->operands : "");
    if (p->sized) {
        printf("  -m MIN:MAX   message sizes in bytes, doubling; K, M, G are understood (default %zu:%zu)\n", p->min, p->max);
        printf("  -c           also check the data of %d more messages of each size, outside the timing\n", CHECKED_MESSAGES);
    }
    printf("  -i COUNT     timed repetitions (default 10000, fewer for large messages)\n"
           "  -x COUNT     repetitions before the clock starts (default a tenth of -i)\n");
    if (p->windowed)
        printf("  -W COUNT     messages in flight before an answer is awaited (default 64)\n");
    printf("  --csv        comma-separated values instead of a table\n"
           "  -h, --help   this text\n\n"
           "Figures of a busy machine mean little: run several times, compare the smallest.\n");
}

/* A number with an optional K, M or G; -1 if it is none. */
static long long parse_size(const char *text, char **end)
{
    long long value = strtoll(text, end, 10);
    if (*end == text || value < 0)
        return -1;
    switch (**end) {
    case 'k': case 'K': value <<= 10; ++*end; break;
    case 'm': case 'M': value <<= 20; ++*end; break;
    case 'g': case 'G': value <<= 30; ++*end; break;
    }
    return value;
}

static int parse_count(const struct program *p, const char *option, const char *text, int least)
{
    char *end;
    long long value = text ? parse_size(text, &end) : -1;
    if (!text || value < least || value > 2000000000 || *end)
        give_up("%s: %s needs a number of at least %d, not '%s' (-h helps)", p->name, option, least, text ? text : "");
    return (int)value;
}

static void parse_sizes(const struct program *p, const char *text)
{
    char *end = NULL;
    long long low = 0, high = text ? parse_size(text, &end) : -1;
    if (high >= 0 && *end == ':') {
        low = high;
        high = parse_size(end + 1, &end);
    } else if (high >= 0) {
        low = (long long)p->min;
    }
    if (high < 0 || low > high || *end || high > 2000000000)
        give_up("%s: -m needs MIN:MAX with MIN <= MAX < 2 GB, not '%s' (-h helps)", p->name, text ? text : "");
    options.min = (size_t)low;
    options.max = (size_t)high;
}

/* Starts MPI, reads the options, checks the number of ranks. */
static void start(int *argc, char ***argv, const struct program *p)
{
    int i;
    MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    options.min = p->min;
    options.max = p->max;
    options.warmup = -1;
    options.window = 64;
    for (i = 1; i < *argc; i++) {
        const char *word = (*argv)[i], *value = i + 1 < *argc ? (*argv)[i + 1] : NULL;
        if (!strcmp(word, "-h") || !strcmp(word, "--help")) {
            if (rank == 0)
                print_help(p);
            MPI_Finalize();
            exit(0);
        } else if (!strcmp(word, "--csv")) {
            options.csv = 1;
        } else if (!strcmp(word, "-c") && p->sized) {
            options.check = 1;
        } else if (!strcmp(word, "-m") && p->sized) {
            parse_sizes(p, value);
            i++;
        } else if (!strcmp(word, "-i")) {
            options.iterations = parse_count(p, word, value, 1);
            i++;
        } else if (!strcmp(word, "-x")) {
            options.warmup = parse_count(p, word, value, 0);
            i++;
        } else if (!strcmp(word, "-W") && p->windowed) {
            options.window = parse_count(p, word, value, 1);
            i++;
        } else if (word[0] != '-' && p->operands && !options.operand) {
            options.operand = word;
        } else {
            give_up("%s: unknown option '%s' (-h helps)", p->name, word);
        }
    }
    if (ranks < p->least_ranks || (p->even && ranks % 2))
        give_up("%s: needs %s%d ranks%s, started with %d: mpiexec -n %d ./%s", p->name, p->even ? "" : "at least ",
                p->least_ranks, p->even ? " or another even number" : "", ranks, p->least_ranks, p->name);
    if (p->operands && !options.operand)
        give_up("%s: say which: %s (-h helps)", p->name, p->operands);
}

static int iterations_for(size_t size)
{
    if (options.iterations)
        return options.iterations;
    return size <= LARGE ? 10000 : size <= (1 << 20) ? 1000 : 100;
}

static int warmup_for(size_t size)
{
    return options.warmup >= 0 ? options.warmup : iterations_for(size) / 10;
}

/* The next size of the table; 0 is followed by 1. */
static size_t next_size(size_t size)
{
    return size ? 2 * size : 1;
}

/* Page-aligned, touched memory. */
static char *buffer(size_t bytes)
{
    size_t page = 4096, room = (bytes + 2 * page - 1) / page * page;
    char *memory = malloc(room + page);
    if (!memory)
        give_up("no memory for a buffer of %zu bytes: choose a smaller -m", bytes);
    memory += page - (size_t)memory % page;
    memset(memory, 0, bytes ? bytes : 1);
    return memory;
}

static unsigned char pattern(size_t place, unsigned seed)
{
    return (unsigned char)(place * 31u + (place >> 8) * 7u + seed * 101u + 1u);
}

static void fill(char *data, size_t bytes, unsigned seed)
{
    size_t i;
    for (i = 0; i < bytes; i++)
        data[i] = (char)pattern(i, seed);
}

/* Counts bytes that are not what `fill` wrote, and spoils them so that old data cannot pass the next time. */
static void check(char *data, size_t bytes, unsigned seed)
{
    size_t i;
    for (i = 0; i < bytes; i++)
        wrong_bytes += data[i] != (char)pattern(i, seed);
    memset(data, 0xEE, bytes);
}

static void print_head(const struct program *p)
{
    int i;
    if (rank)
        return;
    if (options.csv) {
        printf("%s", p->sized ? "size_bytes" : "benchmark");
        for (i = 0; i < MAX_COLUMNS && p->columns[i]; i++)
            printf(",%s", p->columns[i]);
        printf("%s\n", options.check ? ",data" : "");
    } else {
        printf("# Weft benchmark: %s, %d ranks\n", p->purpose, ranks);
        printf("%-12s", p->sized ? "# Size" : "# Benchmark");
        for (i = 0; i < MAX_COLUMNS && p->columns[i]; i++)
            printf("%20s", p->columns[i]);
        printf("%s\n", options.check ? "      Data" : "");
    }
    fflush(stdout);
}

/* One row; collective when -c was given, since all ranks must agree that the data is right. */
static void print_row(const struct program *p, const char *label, const double *values)
{
    int i;
    long wrong = 0;
    if (options.check) {
        MPI_Allreduce(&wrong_bytes, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0) {
        printf(options.csv ? "%s" : "%-12s", label);
        for (i = 0; i < MAX_COLUMNS && p->columns[i]; i++)
            printf(options.csv ? ",%.4f" : "%20.2f", values[i]);
        if (options.check)
            printf(options.csv ? ",%s" : "%10s", wrong ? "WRONG" : "right");
        printf("\n");
        fflush(stdout);
    }
    if (wrong)
        give_up("%s: at size %s %ld bytes were not what had been sent", p->name, label, wrong);
}

static void print_size_row(const struct program *p, size_t size, const double *values)
{
    char label[32];
    snprintf(label, sizeof label, "%zu", size);
    print_row(p, label, values);
}

/* Smallest, mean and largest of one figure over all ranks, on rank 0. */
static void spread(double mine, double *least, double *mean, double *most)
{
    MPI_Reduce(&mine, least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mine, mean, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    *mean /= ranks;
}

/* A program may use a part of this file only. */
static inline void mention_all(void)
{
    (void)next_size, (void)warmup_for, (void)buffer, (void)fill, (void)check, (void)print_head;
    (void)print_size_row, (void)spread, (void)mention_all, (void)start;
}

#endif
