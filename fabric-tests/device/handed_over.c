/* Barrier, broadcast, reduce and allreduce go to the fabric's provider from a communicator's second call on, blocking and nonblocking, with
 * types that have gaps, in place, on communicators that are made and freed; what the provider does not take stays with the library: persistent
 * ones, user operations, other collectives, communicators that ask for reproducible reductions. The library's own counter tells which way.
 *
 * Covers: 6.3, 6.4, 6.9.1, 6.9.6, 6.12
 * Ranks: 2 3 4 5
 */
#include "counter.h"
#include <string.h>

enum { MOST = 1500 };

/* The calls hand over so many collectives. */
#define HANDS(number, calls)                                                                          \
    do {                                                                                              \
        unsigned long long before = counted();                                                    \
        calls;                                                                                        \
        unsigned long long given = counted() - before;                                            \
        if (given != (unsigned long long)(number))                                                    \
            CHECK_FAIL("%llu handed over instead of %d: %s", given, (int)(number), #calls);           \
    } while (0)

static void first_of_all(void *left, void *right, int *count, MPI_Datatype *type)
{
    (void)left, (void)type;
    for (int i = 0; i < *count; i++) ((int *)right)[i] += 0;
}

static void check_bcast(MPI_Comm comm, int n, int me)
{
    int data[MOST];
    for (int count = 1; count < MOST; count = count * 5 + 2)
        for (int root = 0; root < n; root++) {
            for (int i = 0; i < count; i++) data[i] = me == root ? 1000 * root + i : -1;
            HANDS(1, CHECK_OK(MPI_Bcast(data, count, MPI_INT, root, comm)));
            for (int i = 0; i < count; i++) CHECK_INT(data[i], 1000 * root + i);
        }
}

static void check_reductions(MPI_Comm comm, int n, int me)
{
    double mine[MOST], sum[MOST], all[MOST];
    for (int count = 1; count < MOST; count = count * 5 + 2) {
        for (int i = 0; i < count; i++) mine[i] = me + 0.1 * i;
        HANDS(1, CHECK_OK(MPI_Allreduce(mine, sum, count, MPI_DOUBLE, MPI_SUM, comm)));
        for (int i = 0; i < count; i++) {
            double wanted = n * (n - 1) / 2.0 + 0.1 * i * n;
            if (sum[i] < wanted - 1e-6 || sum[i] > wanted + 1e-6) CHECK_FAIL("a sum of %f is not %f", sum[i], wanted);
        }
        /* All have the same bits. */
        memcpy(all, sum, sizeof(double) * count);
        HANDS(1, CHECK_OK(MPI_Bcast(all, count, MPI_DOUBLE, n - 1, comm)));
        if (memcmp(all, sum, sizeof(double) * count) != 0) CHECK_FAIL("other bits than at the last rank");
        int top = me, least[2] = {me, -me}, root = count % n;
        HANDS(1, CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, &top, 1, MPI_INT, MPI_MAX, comm)));
        CHECK_INT(top, n - 1);
        int at_root[2] = {77, 77};
        HANDS(1, CHECK_OK(MPI_Reduce(least, at_root, 2, MPI_INT, MPI_MIN, root, comm)));
        CHECK_INT(at_root[0], me == root ? 0 : 77);
        CHECK_INT(at_root[1], me == root ? 1 - n : 77);
        unsigned char bits = 1 << (me % 8);
        HANDS(1, CHECK_OK(MPI_Reduce(me == root ? MPI_IN_PLACE : &bits, &bits, 1, MPI_UINT8_T, MPI_BOR, root, comm)));
        CHECK_INT(bits, me == root ? (1 << n) - 1 : 1 << (me % 8));
    }
}

/* Every second number of the root goes to every third of the others. */
static void check_gaps(MPI_Comm comm, int n, int me)
{
    MPI_Datatype type;
    int data[3 * 40], step = me == 0 ? 2 : 3;
    CHECK_OK(MPI_Type_vector(40, 1, step, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    for (int i = 0; i < 3 * 40; i++) data[i] = me == 0 ? i : -1;
    HANDS(1, CHECK_OK(MPI_Bcast(data, 1, type, 0, comm)));
    for (int i = 0; i < step * 40; i++)
        CHECK_INT(data[i], me == 0 ? i : i % step == 0 && i / step < 40 ? i / step * 2 : -1);
    CHECK_OK(MPI_Type_free(&type));
    (void)n;
}

/* Many at once, completed backwards, with a blocking one among them. */
static void check_nonblocking(MPI_Comm comm, int n, int me)
{
    enum { AT_ONCE = 20 };
    MPI_Request requests[AT_ONCE];
    long mine[AT_ONCE], sums[AT_ONCE];
    double real[AT_ONCE], reals[AT_ONCE];
    HANDS(AT_ONCE, for (int i = 0; i < AT_ONCE; i++) {
        mine[i] = me * 100 + i;
        real[i] = me + i;
        if (i % 4 == 0) CHECK_OK(MPI_Ibarrier(comm, &requests[i]));
        if (i % 4 == 1) CHECK_OK(MPI_Iallreduce(&mine[i], &sums[i], 1, MPI_LONG, MPI_SUM, comm, &requests[i]));
        if (i % 4 == 2) CHECK_OK(MPI_Iallreduce(&real[i], &reals[i], 1, MPI_DOUBLE, MPI_SUM, comm, &requests[i]));
        if (i % 4 == 3) CHECK_OK(MPI_Ibcast(&mine[i], 1, MPI_LONG, i % n, comm, &requests[i]));
    });
    CHECK_OK(MPI_Barrier(comm));
    for (int i = AT_ONCE - 1; i >= 0; i--) {
        CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        if (i % 4 == 1) CHECK_INT(sums[i], n * (n - 1) / 2 * 100 + n * i);
        if (i % 4 == 2 && reals[i] != n * (n - 1) / 2 + n * i) CHECK_FAIL("a sum of %f", reals[i]);
        if (i % 4 == 3) CHECK_INT(mine[i], i % n * 100 + i);
    }
}

static void check_what_stays(MPI_Comm comm, int n, int me)
{
    int value = me, sum = 0, all[64];
    MPI_Request request;
    MPI_Op op;
    CHECK_OK(MPI_Allreduce_init(&value, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
    HANDS(0, for (int i = 0; i < 2; i++) {
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_INT(sum, n * (n - 1) / 2);
    });
    CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Op_create(first_of_all, 0, &op));
    HANDS(0, CHECK_OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, op, comm)));
    CHECK_INT(sum, n - 1);
    CHECK_OK(MPI_Op_free(&op));
    HANDS(0, CHECK_OK(MPI_Allgather(&value, 1, MPI_INT, all, 1, MPI_INT, comm)));
    HANDS(0, CHECK_OK(MPI_Bcast(all, 0, MPI_INT, 0, comm)));
    HANDS(0, CHECK_OK(MPI_Bcast(NULL, 0, MPI_INT, n - 1, comm)));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    open_counter("weft_collectives_handed_over");
    int n = check_size, me = check_rank;
    HANDS(0, CHECK_OK(MPI_Barrier(MPI_COMM_WORLD)));
    HANDS(1, CHECK_OK(MPI_Barrier(MPI_COMM_WORLD)));
    check_bcast(MPI_COMM_WORLD, n, me);
    check_reductions(MPI_COMM_WORLD, n, me);
    check_gaps(MPI_COMM_WORLD, n, me);
    check_nonblocking(MPI_COMM_WORLD, n, me);
    check_what_stays(MPI_COMM_WORLD, n, me);

    /* The other way round: ranks, groups of the provider and processes are three things. Freed with work under way. */
    for (int round = 0; round < 3; round++) {
        MPI_Comm back;
        MPI_Request request;
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, n - me, &back));
        HANDS(0, CHECK_OK(MPI_Barrier(back)));
        check_bcast(back, n, n - 1 - me);
        check_reductions(back, n, n - 1 - me);
        int one = 1, sum = 0;
        HANDS(1, CHECK_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, back, &request)));
        CHECK_OK(MPI_Comm_free(&back));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_INT(sum, n);
    }

    MPI_Comm fixed;
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "weft_reproducible", "true"));
    CHECK_OK(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &fixed));
    CHECK_OK(MPI_Info_free(&info));
    for (int i = 0; i < 3; i++) {
        double mine = me, sum;
        HANDS(0, CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, fixed)));
    }
    CHECK_OK(MPI_Comm_free(&fixed));
    return check_end();
}
