/* WEFT_REPRODUCIBLE: MPI_Scan, MPI_Exscan, MPI_Reduce_scatter with counts of every kind, and the reductions of intercommunicators give the same
 * bits for the same operands: blocking, nonblocking and persistent, in place or not, short and long, with ranks placed in another
 * order underneath. Scans combine by doubling, all others along the one tree, on intercommunicators that of the other group.
 *
 * Covers: 6.9.1, 6.10, 6.11, 6.2.3
 * Ranks: 2 3 5 8
 * Env: WEFT_REPRODUCIBLE=yes
 * Timeout: 60
 */
#include "reproducible.h"

enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };

static double in[LONG], out[LONG];

/* What rank r holds before round k of doubling. */
static double doubled(int r, int k, int i)
{
    if (k == 0) return operand(r, i);
    int distance = 1 << (k - 1);
    return r >= distance ? doubled(r - distance, k - 1, i) + doubled(r, k - 1, i) : doubled(r, k - 1, i);
}

static double scanned(int r, int n, int i)
{
    int rounds = 0;
    while (1 << rounds < n) rounds++;
    return doubled(r, rounds, i);
}

static double scanned_before(int r, int n, int i)
{
    double sum = doubled(r - 1, 0, i);
    for (int k = 1; 1 << k < n && r >= 1 << k; k++) sum = doubled(r - (1 << k), k, i) + sum;
    return sum;
}

#define CALL(Name, name, ...)                                                                      \
    do {                                                                                           \
        MPI_Request request;                                                                       \
        if (form == BLOCKING) CHECK_OK(MPI_##Name(__VA_ARGS__));                                   \
        else if (form == NONBLOCKING) {                                                            \
            CHECK_OK(MPI_I##name(__VA_ARGS__, &request));                                          \
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                       \
        } else {                                                                                   \
            CHECK_OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request));                     \
            CHECK_OK(MPI_Start(&request));                                                         \
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                       \
            CHECK_OK(MPI_Request_free(&request));                                                  \
        }                                                                                          \
    } while (0)

/* Some of the first elements have the bits of the expression in i. */
#define SAME_BITS(what, count, expression)                                                                     \
    for (int i = 0; i < (count); i += 1 + i / 8) {                                                             \
        double right = (expression);                                                                           \
        if (memcmp(&out[i], &right, sizeof right) != 0) {                                                      \
            CHECK_FAIL("%s, form %d, in place %d, %d elements, element %d: %.17g, wanted %.17g", what, form, in_place, count, i, out[i], right); \
            break;                                                                                             \
        }                                                                                                      \
    }

static const int lengths[] = {1, 3, 700, LONG};

static void within(MPI_Comm comm)
{
    int me, n, counts[8];
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_size(comm, &n));
    for (int i = 0; i < LONG; i++) in[i] = operand(me, i);
    for (int c = 0; c < 4; c++)
        for (int form = BLOCKING; form < FORMS; form++)
            for (int in_place = 0; in_place < 2; in_place++) {
                int count = lengths[c], before = 0, total = 0;
                const void *from = in_place ? MPI_IN_PLACE : in;
                memcpy(out, in, sizeof out);
                CALL(Scan, scan, from, out, count, MPI_DOUBLE, MPI_SUM, comm);
                SAME_BITS("scan", count, scanned(me, n, i));
                memcpy(out, in, sizeof out);
                CALL(Exscan, exscan, from, out, count, MPI_DOUBLE, MPI_SUM, comm);
                if (me > 0) SAME_BITS("exscan", count, scanned_before(me, n, i));
                /* One of the ranks gets nothing, the first and the last get more than others. */
                for (int r = 0; r < n; r++) counts[r] = r == n / 2 && n > 2 ? 0 : r == 0 ? count / 2 : r == n - 1 ? count / 4 : count / 32;
                for (int r = 0; r < n; total += counts[r++])
                    if (r < me) before += counts[r];
                CHECK(total <= count);
                memcpy(out, in, sizeof out);
                CALL(Reduce_scatter, reduce_scatter, from, out, counts, MPI_DOUBLE, MPI_SUM, comm);
                SAME_BITS("reduce_scatter", counts[me], wanted(0, n, before + i));
            }
}

static void between(int first, int reversed)
{
    MPI_Comm local, comm;
    int side = check_rank >= first, me, n, m, counts[8], in_place = 0;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, reversed ? -check_rank : check_rank, &local));
    CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? (reversed ? first - 1 : 0) : (reversed ? check_size - 1 : first), 1, &comm));
    CHECK_OK(MPI_Comm_free(&local));
    CHECK_OK(MPI_Comm_rank(comm, &me));
    CHECK_OK(MPI_Comm_size(comm, &n));
    CHECK_OK(MPI_Comm_remote_size(comm, &m));
    for (int i = 0; i < LONG; i++) in[i] = operand(me, i);
    for (int c = 0; c < 4; c++)
        for (int form = BLOCKING; form < FORMS; form++) {
            int count = lengths[c], before = 0, part = count / (n * m);
            CALL(Allreduce, allreduce, in, out, count, MPI_DOUBLE, MPI_SUM, comm);
            SAME_BITS("allreduce", count, wanted(0, m, i));
            for (int root_side = 0; root_side < 2; root_side++) {
                int root = (root_side == side ? n : m) - 1, mine = root_side == side && me == root;
                CALL(Reduce, reduce, in, out, count, MPI_DOUBLE, MPI_SUM, root_side != side ? root : mine ? MPI_ROOT : MPI_PROC_NULL, comm);
                if (mine) SAME_BITS("reduce", count, wanted(0, m, i));
            }
            CALL(Reduce_scatter_block, reduce_scatter_block, in, out, part * m, MPI_DOUBLE, MPI_SUM, comm);
            SAME_BITS("reduce_scatter_block", part * m, wanted(0, m, me * part * m + i));
            for (int r = 0; r < n; r++) counts[r] = r == 0 ? count - count / 8 * (n - 1) : count / 8;
            for (int r = 0; r < me; r++) before += counts[r];
            CALL(Reduce_scatter, reduce_scatter, in, out, counts, MPI_DOUBLE, MPI_SUM, comm);
            SAME_BITS("reduce_scatter", counts[me], wanted(0, m, before + i));
        }
    CHECK_OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm reversed;
    within(MPI_COMM_WORLD);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reversed));
    within(reversed);
    CHECK_OK(MPI_Comm_free(&reversed));
    between(check_size / 2, 0);
    between(check_size / 2, 1);
    between(1, 0);
    return check_end();
}
