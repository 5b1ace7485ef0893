/* What the test programs share: checks that say where, on which rank, what was wanted and what was got.
 *
 * A program calls check_start, checks, and returns check_end(). check_end finalizes MPI and prints this rank's PASS
 * line unless a check failed. Errors on MPI_COMM_WORLD and MPI_COMM_SELF return, so that CHECK_OK can say which call
 * failed.
 */
#ifndef CHECK_H
#define CHECK_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the header is of MPI 4.1 or later; what older peers lack is left out for them. */
#define MPI_41 (MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1))

static int check_rank = -1;
static int check_size = 0;
static int check_failures = 0;

/* One write for one line, so that lines of several ranks do not mix. */
#define CHECK_FAIL(...)                                                                      \
    do {                                                                                     \
        char text_[2048];                                                                    \
        int used_ = snprintf(text_, sizeof text_, "FAIL %s:%d rank %d: ", __FILE__, __LINE__, check_rank); \
        snprintf(text_ + used_, sizeof text_ - (size_t)used_, __VA_ARGS__);                  \
        check_report(text_);                                                                 \
    } while (0)

static inline void check_report(const char *text)
{
    fprintf(stderr, "%s\n", text);
    fflush(stderr);
    check_failures++;
    if (check_failures >= 25) {
        fprintf(stderr, "rank %d: too many failures\n", check_rank);
        _exit(1);
    }
}

#define CHECK(condition)                                      \
    do {                                                      \
        if (!(condition)) CHECK_FAIL("not true: %s", #condition); \
    } while (0)

#define CHECK_INT(got, wanted)                                                                   \
    do {                                                                                         \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                        \
        if (got_ != wanted_) CHECK_FAIL("%s: got %lld, wanted %lld", #got, got_, wanted_);       \
    } while (0)

#define CHECK_STR(got, wanted)                                                                   \
    do {                                                                                         \
        if (strcmp((got), (wanted)) != 0)                                                        \
            CHECK_FAIL("%s: got \"%s\", wanted \"%s\"", #got, (got), (wanted));                   \
    } while (0)

/* The call must succeed; nothing sensible can follow if it does not. */
#define CHECK_OK(call)                                                                           \
    do {                                                                                         \
        int code_ = (call);                                                                      \
        if (code_ != MPI_SUCCESS) {                                                              \
            char why_[MPI_MAX_ERROR_STRING + 1] = "";                                            \
            int length_ = 0;                                                                     \
            MPI_Error_string(code_, why_, &length_);                                             \
            CHECK_FAIL("%s: %s", #call, why_);                                                   \
            MPI_Abort(MPI_COMM_WORLD, 99);                                                       \
        }                                                                                        \
    } while (0)

static inline int check_class_of(int code)
{
    int error_class = -1;
    if (MPI_Error_class(code, &error_class) != MPI_SUCCESS) return -1;
    return error_class;
}

/* A communicator of all processes that belongs to a session of its own. */
static inline MPI_Comm check_comm_of_session(const char *tag, MPI_Session *session)
{
    MPI_Group group;
    MPI_Comm comm;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session));
    CHECK_OK(MPI_Group_from_session_pset(*session, "mpi://WORLD", &group));
    CHECK_OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Group_free(&group));
    return comm;
}

/* The call must fail with an error of this class. */
#define CHECK_CLASS(call, wanted)                                                                \
    do {                                                                                         \
        int code_ = (call);                                                                      \
        if (check_class_of(code_) != (wanted)) {                                                 \
            char why_[MPI_MAX_ERROR_STRING + 1] = "";                                            \
            int length_ = 0;                                                                     \
            MPI_Error_string(code_, why_, &length_);                                             \
            CHECK_FAIL("%s: got code %d class %d (%s), wanted %s = %d", #call, code_,            \
                       check_class_of(code_), why_, #wanted, (int)(wanted));                     \
        }                                                                                        \
    } while (0)

/* Every byte of the range must have this value. */
#define CHECK_BYTES(pointer, value, length)                                                      \
    do {                                                                                         \
        const unsigned char *bytes_ = (const unsigned char *)(pointer);                          \
        size_t length_ = (size_t)(length);                                                       \
        for (size_t at_ = 0; at_ < length_; at_++)                                               \
            if (bytes_[at_] != (unsigned char)(value)) {                                         \
                CHECK_FAIL("%s: byte %zu of %zu is %u, wanted %u", #pointer, at_, length_,       \
                           bytes_[at_], (unsigned)(unsigned char)(value));                       \
                break;                                                                           \
            }                                                                                    \
    } while (0)

/* Bytes that depend on place and seed: a shifted, swapped or foreign block does not look right. */
static inline void fill(void *pointer, size_t length, unsigned seed)
{
    unsigned char *bytes = (unsigned char *)pointer;
    uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1u);
    size_t at = 0;
    while (at < length) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t part = length - at < 8 ? length - at : 8;
        memcpy(bytes + at, &state, part);
        at += part;
    }
}

static inline size_t first_difference_from_fill(const void *pointer, size_t length, unsigned seed)
{
    const unsigned char *bytes = (const unsigned char *)pointer;
    uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1u);
    size_t at = 0;
    while (at < length) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t part = length - at < 8 ? length - at : 8;
        if (memcmp(bytes + at, &state, part) != 0) {
            const unsigned char *wanted = (const unsigned char *)&state;
            for (size_t i = 0; i < part; i++)
                if (bytes[at + i] != wanted[i]) return at + i;
        }
        at += part;
    }
    return length;
}

#define CHECK_FILL(pointer, length, seed)                                                        \
    do {                                                                                         \
        size_t bad_ = first_difference_from_fill((pointer), (size_t)(length), (unsigned)(seed)); \
        if (bad_ != (size_t)(length))                                                            \
            CHECK_FAIL("%s: differs from byte %zu of %zu on (seed %u)", #pointer, bad_,          \
                       (size_t)(length), (unsigned)(seed));                                      \
    } while (0)

/* The empty status of section 3.7.3; MPI_ERROR is looked at by those who may. */
#define CHECK_EMPTY(status)                                                                      \
    do {                                                                                         \
        int count_ = -1, cancelled_ = -1;                                                        \
        CHECK_INT((status).MPI_SOURCE, MPI_ANY_SOURCE);                                          \
        CHECK_INT((status).MPI_TAG, MPI_ANY_TAG);                                                \
        MPI_Get_count(&(status), MPI_BYTE, &count_);                                             \
        CHECK_INT(count_, 0);                                                                    \
        MPI_Test_cancelled(&(status), &cancelled_);                                              \
        CHECK_INT(cancelled_, 0);                                                                \
    } while (0)

#define CHECK_STATUS(status, source, tag, type, count)                                           \
    do {                                                                                         \
        int count_ = -1;                                                                         \
        CHECK_INT((status).MPI_SOURCE, (source));                                                \
        CHECK_INT((status).MPI_TAG, (tag));                                                      \
        MPI_Get_count(&(status), (type), &count_);                                               \
        CHECK_INT(count_, (count));                                                              \
    } while (0)

static inline void check_world(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &check_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
}

/* The seed of a random program: that of WEFT_SEED at rank 0, otherwise 0; told, so that what fails or hangs can be run again. */
static inline unsigned check_seed(void)
{
    const char *text = getenv("WEFT_SEED");
    unsigned seed = text != NULL ? (unsigned)strtoul(text, NULL, 0) : 0;
    MPI_Bcast(&seed, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (check_rank == 0) {
        printf("WEFT_SEED=%u\n", seed);
        fflush(stdout);
    }
    return seed;
}

static inline void check_start(int *argc, char ***argv)
{
    MPI_Init(argc, argv);
    check_world();
}

/* For programs that have finalized MPI themselves. */
static inline int check_verdict(void)
{
    if (check_failures != 0) return 1;
    printf("PASS rank %d of %d\n", check_rank, check_size);
    fflush(stdout);
    return 0;
}

static inline int check_end(void)
{
    MPI_Finalize();
    return check_verdict();
}

static inline void *check_alloc(size_t bytes)
{
    void *pointer = malloc(bytes ? bytes : 1);
    if (pointer == NULL) {
        fprintf(stderr, "rank %d: out of memory (%zu bytes)\n", check_rank, bytes);
        _exit(1);
    }
    return pointer;
}

/* A message buffer at an odd address with guard bytes around it. */
#define GUARD 67
struct guarded {
    unsigned char *whole;
    unsigned char *bytes;
    size_t length;
};

static inline struct guarded guarded_new(size_t length)
{
    struct guarded g;
    g.whole = (unsigned char *)check_alloc(length + 2 * GUARD);
    memset(g.whole, 0xA5, length + 2 * GUARD);
    g.bytes = g.whole + GUARD;
    g.length = length;
    return g;
}

#define CHECK_GUARDS(g)                                                  \
    do {                                                                 \
        CHECK_BYTES((g).whole, 0xA5, GUARD);                             \
        CHECK_BYTES((g).bytes + (g).length, 0xA5, GUARD);                \
    } while (0)

#endif
