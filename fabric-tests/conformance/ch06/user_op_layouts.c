/* What a user's operation is handed: elements laid out as the user's datatype has them, also where that begins before its buffer, has
 * gaps inside and around it, or runs backwards; only whole elements; and a function of int counts in a call of more elements than
 * an int holds, which is told of each of them once.
 *
 * Covers: 6.9.5, 6.9.7, 5.1.7
 * Ranks: 1 2 3 5 8
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

/* Per element: a at +8 bytes, b at -8 bytes of where it lies; extent 40 from -16 on, or minus 40. */
enum { STRIDE = 40, COUNTS = 4 };
static const int counts[COUNTS] = {1, 3, 200, 9000};
static int backwards;

static long *part(char *element, int which)
{
    return (long *)(element + (which ? -8 : 8));
}

static char *nth(char *first, int i)
{
    return first + (backwards ? -STRIDE : STRIDE) * (ptrdiff_t)i;
}

/* Pairs a, b as maps x -> a x + b, from the left; what lies in the gaps is not touched. */
static void compose(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++) {
        char *l = nth(left, i), *r = nth(right, i);
        long a = *part(l, 0) * *part(r, 0) % 10007, b = (*part(r, 0) * *part(l, 1) + *part(r, 1)) % 10007;
        *part(r, 0) = a, *part(r, 1) = b;
    }
}

static MPI_Datatype layout(void)
{
    MPI_Datatype both, type;
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {8, -8};
    CHECK_OK(MPI_Type_create_hindexed(2, lengths, places, MPI_LONG, &both));
    CHECK_OK(MPI_Type_create_resized(both, backwards ? 24 : -16, backwards ? -STRIDE : STRIDE, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_free(&both));
    return type;
}

static void give(char *first, int count, int rank)
{
    for (int i = 0; i < count; i++) *part(nth(first, i), 0) = rank + 2 + i % 5, *part(nth(first, i), 1) = rank * 3 + i % 7 + 1;
}

static void look(char *first, int count, int members, const char *what)
{
    for (int i = 0; i < count; i++) {
        long a = 2 + i % 5, b = i % 7 + 1;
        for (int r = 1; r < members; r++) {
            long a1 = r + 2 + i % 5, b1 = r * 3 + i % 7 + 1;
            a = a * a1 % 10007, b = (a1 * b + b1) % 10007;
        }
        if (members > 1 && (*part(nth(first, i), 0) != a || *part(nth(first, i), 1) != b)) {
            CHECK_FAIL("%s, %d elements%s: element %d", what, count, backwards ? " backwards" : "", i);
            return;
        }
    }
}

#if MPI_VERSION >= 4
static int outside;
static long long told;
static void *next_part;
static void tell(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)left;
    if (*count < 0 || *type != MPI_CHAR) outside++;
    if (right != next_part) outside++;
    next_part = (char *)right + *count;
    told += *count;
}
#endif

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Op op;
    int n = check_size, me = check_rank;
    CHECK_OK(MPI_Op_create(compose, 0, &op));
    for (backwards = 0; backwards < 2; backwards++)
        for (int c = 0; c < COUNTS; c++) {
            int count = counts[c];
            size_t room = (size_t)STRIDE * (size_t)(count * n + 2);
            char *whole[2], *send, *recv;
            MPI_Datatype type = layout();
            for (int i = 0; i < 2; i++) whole[i] = check_alloc(room);
            send = backwards ? whole[0] + room - STRIDE : whole[0] + STRIDE;
            recv = backwards ? whole[1] + room - STRIDE : whole[1] + STRIDE;
#define FRESH memset(whole[0], 0x11, room), memset(whole[1], 0x22, room), give(send, count, me)
            for (int root = 0; root < n; root++) {
                FRESH;
                CHECK_OK(MPI_Reduce(send, recv, count, type, op, root, MPI_COMM_WORLD));
                if (me == root) look(recv, count, n, "Reduce");
            }
            FRESH;
            CHECK_OK(MPI_Allreduce(send, recv, count, type, op, MPI_COMM_WORLD));
            look(recv, count, n, "Allreduce");
            /* Gaps stay as they were: the 8 bytes between both parts. */
            for (int i = 0; i < count; i++) CHECK_BYTES(nth(recv, i), 0x22, 8);
            FRESH;
            give(recv, count, me);
            CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, recv, count, type, op, MPI_COMM_WORLD));
            look(recv, count, n, "Allreduce in place");
            FRESH;
            CHECK_OK(MPI_Scan(send, recv, count, type, op, MPI_COMM_WORLD));
            look(recv, count, me + 1, "Scan");
            FRESH;
            CHECK_OK(MPI_Exscan(send, recv, count, type, op, MPI_COMM_WORLD));
            if (me > 1) look(recv, count, me, "Exscan");
            FRESH;
            for (int r = 0; r < n; r++) give(nth(send, r * count), count, me);
            CHECK_OK(MPI_Reduce_scatter_block(send, recv, count, type, op, MPI_COMM_WORLD));
            look(recv, count, n, "Reduce_scatter_block");
            FRESH;
            give(recv, count, 1);
            give(send, count, 0);
            CHECK_OK(MPI_Reduce_local(send, recv, count, type, op));
            look(recv, count, 2, "Reduce_local");
            for (int i = 0; i < 2; i++) free(whole[i]);
            CHECK_OK(MPI_Type_free(&type));
        }
    CHECK_OK(MPI_Op_free(&op));

#if MPI_VERSION >= 4
    /* Addresses that are reserved only: nobody but the function may touch them, and it does not. */
    MPI_Count many = ((MPI_Count)1 << 32) + 12345;
    char *left = mmap(NULL, (size_t)many, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *right = mmap(NULL, (size_t)many, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (left != MAP_FAILED && right != MAP_FAILED) {
        MPI_Op counting;
        CHECK_OK(MPI_Op_create(tell, 1, &counting));
        next_part = right;
        CHECK_OK(MPI_Reduce_local_c(left, right, many, MPI_CHAR, counting));
        CHECK_INT(told, many);
        CHECK_INT(outside, 0);
        CHECK_OK(MPI_Op_free(&counting));
        munmap(left, (size_t)many);
        munmap(right, (size_t)many);
    }
#endif
    return check_end();
}
