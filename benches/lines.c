/* How fast doubles that lie apart can be packed and unpacked at all, on this processor: loops without MPI, beside the time that it takes
 * only to touch the lines of memory that they have to touch.
 *
 *     cc -O2 -o lines lines.c && ./lines [MILLISECONDS of a figure] [PART OF A NAME]
 *
 * The layouts are those of osu/datatypes.c. Every loop runs a few milliseconds in each of several rounds; its best batch counts.
 *
 * Output, a line for each layout and direction: the bound, then each loop as NAME FIGURE (GB/s of packed bytes).
 *   bound    one access for each block, in order, and one wide one to each line of packed bytes
 *   single   one by one, as a program would write it
 *   wide     eight joined in a register, or four taken out of one
 *   gather4, gather8, scatter8   the instructions of that name
 *   scatter2   scatter8, eight blocks of each half of the layout in turn
 *   fetch16, fetch64, fetch256   wide, with every line fetched so many blocks ahead
 *   stream2, stream4, stream8    wide, eight blocks of each of so many parts of the layout in turn
 *   portions   64 lines fetched, then those 64 moved
 *   past       wide, stored past the caches (packing only)
 */
#define _GNU_SOURCE
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPAN = 80 << 20, ROUNDS = 5 };

/* `count` doubles at `places`, or every `stride` bytes where there are none. */
struct layout {
    const char *name;
    long count, stride, span;
    int64_t *places;
};

typedef void loop(char *packed, char *memory, const struct layout *of);

static char *memory, *packed;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Volatile keeps the order of addresses, which compilers like to turn round. */
#define AT(i) (volatile int64_t *)(listed ? memory + places[i] : memory + (i) * stride)
#define LINES(i) (const char *)(listed ? memory + places[(i) < count ? (i) : count - 1] : memory + (i) * stride)
#define PACKED ((int64_t *)packed)

/* One loop in two forms: over a stride and over a list. */
#define LOOP(name, ...)                                                                                     \
    LOOP_OF(name##_at_stride, 0, __VA_ARGS__)                                                               \
    LOOP_OF(name##_of_list, 1, __VA_ARGS__)
#define LOOP_OF(name, is_listed, ...)                                                                       \
    __attribute__((noinline, target("avx512f,avx512dq,avx512vl"))) static void name(                        \
        char *packed, char *memory, const struct layout *of)                                                \
    {                                                                                                       \
        const long count = of->count, stride = of->stride;                                                  \
        const int64_t *places = of->places;                                                                 \
        const int listed = is_listed;                                                                       \
        long i = 0;                                                                                         \
        (void)stride, (void)places, (void)listed;                                                           \
        __VA_ARGS__                                                                                         \
    }

static inline __attribute__((always_inline, target("avx512f,avx512dq"))) __m512i join(const int64_t *eight)
{
    return _mm512_set_epi64(eight[7], eight[6], eight[5], eight[4], eight[3], eight[2], eight[1], eight[0]);
}
#define JOINED(i) join((const int64_t[8]){*AT(i), *AT(i + 1), *AT(i + 2), *AT(i + 3), *AT(i + 4), *AT(i + 5), *AT(i + 6), *AT(i + 7)})
#define PACK_REST for (; i < count; i++) PACKED[i] = *AT(i);
#define OFFSETS _mm512_mullo_epi64(_mm512_set1_epi64(stride), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7))

LOOP(pack_bound, for (; i + 8 <= count; i += 8) {
    for (long k = 0; k < 8; k++) *AT(i + k);
    _mm512_storeu_si512(packed + 8 * i, _mm512_set1_epi64(i));
})
LOOP(pack_single, for (; i < count; i++) PACKED[i] = *AT(i);)
LOOP(pack_wide, for (; i + 8 <= count; i += 8) _mm512_storeu_si512(packed + 8 * i, JOINED(i)); PACK_REST)
LOOP(pack_past, for (; i + 8 <= count; i += 8) _mm512_stream_si512((void *)(packed + 8 * i), JOINED(i)); PACK_REST _mm_sfence();)
LOOP(pack_gather4, const __m256i offsets = _mm512_castsi512_si256(OFFSETS); for (; i + 4 <= count; i += 4) {
    __m256i at = listed ? _mm256_loadu_si256((const void *)(places + i)) : offsets;
    _mm256_storeu_si256((void *)(packed + 8 * i), _mm256_i64gather_epi64((const void *)(listed ? memory : memory + i * stride), at, 1));
} PACK_REST)
LOOP(pack_gather8, const __m512i offsets = OFFSETS; for (; i + 8 <= count; i += 8) {
    __m512i at = listed ? _mm512_loadu_si512(places + i) : offsets;
    _mm512_storeu_si512(packed + 8 * i, _mm512_i64gather_epi64(at, (const void *)(listed ? memory : memory + i * stride), 1));
} PACK_REST)
#define PACK_FETCHING(n)                                                                    \
    LOOP(pack_fetch##n, for (; i + 8 <= count; i += 8) {                                    \
        for (long k = 0; k < 8; k++) _mm_prefetch(LINES(i + n + k), _MM_HINT_T0);           \
        _mm512_storeu_si512(packed + 8 * i, JOINED(i));                                     \
    } PACK_REST)
PACK_FETCHING(16) PACK_FETCHING(64) PACK_FETCHING(256)
#define PACK_STREAMS(n)                                                                     \
    LOOP(pack_stream##n, const long part = count / n & ~7L; for (long at = 0; at < part; at += 8) \
        for (long k = 0; k < n; k++) {                                                      \
            i = at + k * part;                                                              \
            _mm512_storeu_si512(packed + 8 * i, JOINED(i));                                 \
        } i = n * part; PACK_REST)
PACK_STREAMS(2) PACK_STREAMS(4) PACK_STREAMS(8)
LOOP(pack_portions, for (; i + 64 <= count;) {
    for (long k = 0; k < 64; k++) _mm_prefetch(LINES(i + k), _MM_HINT_T0);
    for (long end = i + 64; i < end; i += 8) _mm512_storeu_si512(packed + 8 * i, JOINED(i));
} PACK_REST)

#define UNPACK_REST for (; i < count; i++) *AT(i) = PACKED[i];
#define SPREAD(i)                                                                           \
    do {                                                                                    \
        __m256i all_ = _mm256_loadu_si256((const void *)(packed + 8 * (i)));                \
        __asm__("" : "+x"(all_)); /* stays one load */                                      \
        __m128i low_ = _mm256_castsi256_si128(all_), high_ = _mm256_extracti128_si256(all_, 1); \
        *AT(i) = _mm_cvtsi128_si64(low_), *AT((i) + 1) = _mm_extract_epi64(low_, 1);        \
        *AT((i) + 2) = _mm_cvtsi128_si64(high_), *AT((i) + 3) = _mm_extract_epi64(high_, 1); \
    } while (0)

LOOP(unpack_bound, for (; i + 8 <= count; i += 8) {
    *(volatile int64_t *)(packed + 8 * i);
    for (long k = 0; k < 8; k++) *AT(i + k) = i;
})
LOOP(unpack_single, for (; i < count; i++) *AT(i) = PACKED[i];)
LOOP(unpack_wide, for (; i + 4 <= count; i += 4) SPREAD(i); UNPACK_REST)
LOOP(unpack_scatter2, const __m512i offsets = OFFSETS; const long part = count / 2 & ~7L; for (long at = 0; at < part; at += 8)
    for (long k = 0; k < 2; k++) {
        i = at + k * part;
        __m512i to = listed ? _mm512_loadu_si512(places + i) : offsets;
        _mm512_i64scatter_epi64((void *)(listed ? memory : memory + i * stride), to, _mm512_loadu_si512(packed + 8 * i), 1);
    }
    i = 2 * part; UNPACK_REST)
LOOP(unpack_scatter8, const __m512i offsets = OFFSETS; for (; i + 8 <= count; i += 8) {
    __m512i at = listed ? _mm512_loadu_si512(places + i) : offsets;
    _mm512_i64scatter_epi64((void *)(listed ? memory : memory + i * stride), at, _mm512_loadu_si512(packed + 8 * i), 1);
} UNPACK_REST)
#define UNPACK_FETCHING(n)                                                                  \
    LOOP(unpack_fetch##n, for (; i + 4 <= count; i += 4) {                                  \
        for (long k = 0; k < 4; k++) __builtin_prefetch(LINES(i + n + k), 1);               \
        SPREAD(i);                                                                          \
    } UNPACK_REST)
UNPACK_FETCHING(16) UNPACK_FETCHING(64) UNPACK_FETCHING(256)
#define UNPACK_STREAMS(n)                                                                   \
    LOOP(unpack_stream##n, const long part = count / n & ~7L; for (long at = 0; at < part; at += 8) \
        for (long k = 0; k < n; k++) {                                                      \
            i = at + k * part;                                                              \
            SPREAD(i);                                                                      \
            SPREAD(i + 4);                                                                  \
        } i = n * part; UNPACK_REST)
UNPACK_STREAMS(2) UNPACK_STREAMS(4) UNPACK_STREAMS(8)
LOOP(unpack_portions, for (; i + 64 <= count;) {
    for (long k = 0; k < 64; k++) __builtin_prefetch(LINES(i + k), 1);
    for (long end = i + 64; i < end; i += 4) SPREAD(i);
} UNPACK_REST)

static const struct { const char *name; loop *at_stride, *of_list; } loops[] = {
#define ENTRY(direction, name) {#direction " " #name, direction##_##name##_at_stride, direction##_##name##_of_list}
    ENTRY(pack, bound), ENTRY(pack, single), ENTRY(pack, wide), ENTRY(pack, gather4), ENTRY(pack, gather8),
    ENTRY(pack, fetch16), ENTRY(pack, fetch64), ENTRY(pack, fetch256), ENTRY(pack, stream2), ENTRY(pack, stream4),
    ENTRY(pack, stream8), ENTRY(pack, portions), ENTRY(pack, past),
    ENTRY(unpack, bound), ENTRY(unpack, single), ENTRY(unpack, wide), ENTRY(unpack, scatter8), ENTRY(unpack, scatter2), ENTRY(unpack, fetch16),
    ENTRY(unpack, fetch64), ENTRY(unpack, fetch256), ENTRY(unpack, stream2), ENTRY(unpack, stream4), ENTRY(unpack, stream8),
    ENTRY(unpack, portions),
};
enum { LOOPS = sizeof loops / sizeof *loops };

/* As in osu/datatypes.c: doubles anywhere in `span` bytes, no two of one slot. */
static int64_t *scattered(long count, long span)
{
    static unsigned seed = 12345;
    int64_t *places = malloc((size_t)count * sizeof *places);
    long slots = span / 16;
    char *used = calloc((size_t)slots, 1);
    for (long i = 0; i < count; i++) {
        unsigned slot;
        do {
            seed = seed * 1664525u + 1013904223u;
            slot = (unsigned)(((unsigned long long)seed * (unsigned long)slots) >> 32);
        } while (used[slot]);
        used[slot] = 1;
        places[i] = (int64_t)slot * 16;
    }
    free(used);
    return places;
}

#ifndef LINES_WITHOUT_MAIN
int main(int argc, char **argv)
{
    static struct layout layouts[] = {
        {"vector8-near", 440, 64, 0, NULL},       {"vector8-middle", 8192, 64, 0, NULL},
        {"vector8", 32768, 64, 0, NULL},          {"vector1000", 8192, 8000, 0, NULL},
        {"column", 1000, 8000, 0, NULL},          {"column-near", 100, 800, 0, NULL},
        {"face-fast", 16384, 1024, 0, NULL},      {"face-fast-middle", 900, 240, 0, NULL},
        {"indexed1", 32768, 0, 16 << 20, NULL},   {"indexed1-middle", 4096, 0, 512 << 10, NULL},
        {"indexed1-near", 384, 0, 24 << 10, NULL},
    };
    const double seconds = (argc > 1 ? atof(argv[1]) : 2) * 1e-3;
    const char *wanted = argc > 2 ? argv[2] : "";
    if (!__builtin_cpu_supports("avx512dq")) {
        fprintf(stderr, "lines: this processor lacks AVX-512, which half of the loops need\n");
        return 1;
    }
    memory = aligned_alloc(4096, SPAN);
    packed = aligned_alloc(4096, 4 << 20);
    memset(memory, 1, SPAN);
    memset(packed, 1, 4 << 20);
    for (size_t row = 0; row < sizeof layouts / sizeof *layouts; row++) {
        struct layout *of = &layouts[row];
        double best[LOOPS];
        if (!strstr(of->name, wanted)) continue;
        if (of->span) of->places = scattered(of->count, of->span);
        for (int which = 0; which < ROUNDS * LOOPS; which++) {
            const int k = which % LOOPS;
            loop *run = of->span ? loops[k].of_list : loops[k].at_stride;
            const long batch = 1 + 65536 / of->count;
            double until = now() + seconds, took;
            if (which < LOOPS) best[k] = 1;
            run(packed, memory, of);
            do {
                double began = now();
                for (long i = 0; i < batch; i++) run(packed, memory, of);
                took = (now() - began) / (double)batch;
                if (took < best[k]) best[k] = took;
            } while (now() < until);
        }
        for (int k = 0; k < LOOPS; k++) {
            const char *name = strchr(loops[k].name, ' ') + 1;
            if (!strcmp(name, "bound")) printf("%s%.*s %s:", k ? "\n" : "", (int)(name - loops[k].name - 1), loops[k].name, of->name);
            printf(" %s %.2f", name, (double)of->count * 8 / best[k] * 1e-9);
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
#endif
