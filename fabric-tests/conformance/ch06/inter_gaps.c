/* Collectives on intercommunicators between processes that have the data in different datatypes of one type signature: contiguous ints, or every
 * second int; all operations that there are, all three forms, roots on both sides. Gaps stay as they are, and the datatypes and
 * the operation are freed while the call is under way. (Intel MPI 2021.18: a persistent scatter or reduction does not arrive.)
 *
 * Covers: 6.1, 6.2.2, 6.2.3, 6.4, 6.5, 6.6, 6.7, 6.8, 6.9.1, 6.9.5, 6.10, 6.12, 6.13
 * Ranks: 2 3 5 6
 */
#include "check.h"

enum { N = 5, WIDE = 2 * N, MOST = 16, GAP = -9, BLOCKING = 0, NONBLOCKING, PERSISTENT, FORMS };

static int first, side, me, n, m, gapped; /* m: members of the other group */
static int given[MOST * WIDE], got[MOST * WIDE];
static MPI_Comm comm;

/* In MPI_COMM_WORLD. */
static int name_of(int which, int member) { return which == 0 ? member : first + member; }
static int value(int from, int to, int i) { return from * 1000 + to * 20 + i; }
static int place(int block, int i) { return gapped ? block * WIDE + 2 * i : block * N + i; }

static void clear(int *data)
{
    for (int i = 0; i < MOST * WIDE; i++) data[i] = GAP;
}

static void put(int *data, int block, int from, int to)
{
    for (int i = 0; i < N; i++) data[place(block, i)] = value(from, to, i);
}

/* The sum of what the members of a group have for `to`. */
static int sum_of(int which, int members, int to, int i)
{
    int sum = 0;
    for (int r = 0; r < members; r++) sum += value(name_of(which, r), to, i);
    return sum;
}

static MPI_Datatype own_type(void)
{
    MPI_Datatype inner, made;
    if (!gapped) CHECK_OK(MPI_Type_contiguous(N, MPI_INT, &made));
    else {
        CHECK_OK(MPI_Type_vector(N, 1, 2, MPI_INT, &inner));
        CHECK_OK(MPI_Type_create_resized(inner, 0, WIDE * sizeof(int), &made));
        CHECK_OK(MPI_Type_free(&inner));
    }
    CHECK_OK(MPI_Type_commit(&made));
    return made;
}

static void add(void *left, void *right, int *count, MPI_Datatype *type)
{
    int *a = left, *b = right;
    (void)type;
    for (int block = 0; block < *count; block++)
        for (int i = 0; i < N; i++) b[place(block, i)] += a[place(block, i)];
}

/* What was received: `blocks` of them, element i of block k as the expression says; gaps and what lies behind are untouched. */
#define CHECK_BLOCKS(what, blocks, expression)                                                                           \
    do {                                                                                                                 \
        int wanted_[MOST * WIDE];                                                                                        \
        for (int at_ = 0; at_ < MOST * WIDE; at_++) wanted_[at_] = GAP;                                                  \
        for (int k = 0; k < (blocks); k++)                                                                               \
            for (int i = 0; i < N; i++) wanted_[place(k, i)] = (expression);                                             \
        for (int at_ = 0; at_ < MOST * WIDE; at_++)                                                                      \
            if (got[at_] != wanted_[at_]) {                                                                              \
                CHECK_FAIL("%s, form %d, root %d of side %d, int %d: got %d, wanted %d", what, form, root, root_side, at_, got[at_], \
                           wanted_[at_]);                                                                                \
                break;                                                                                                   \
            }                                                                                                            \
    } while (0)

/* The call to its end; a persistent one is made, loses its datatype and operation, and runs twice. */
#define CALL(Name, name, ...)                                                                                            \
    do {                                                                                                                 \
        MPI_Datatype type = own_type();                                                                                  \
        MPI_Datatype types[MOST];                                                                                        \
        MPI_Request request;                                                                                             \
        MPI_Op op;                                                                                                       \
        CHECK_OK(MPI_Op_create(add, 1, &op));                                                                            \
        for (int at_ = 0; at_ < MOST; at_++) types[at_] = type;                                                          \
        (void)types;                                                                                                     \
        clear(got);                                                                                                      \
        if (form == BLOCKING) CHECK_OK(MPI_##Name(__VA_ARGS__));                                                         \
        else if (form == NONBLOCKING) CHECK_OK(MPI_I##name(__VA_ARGS__, &request));                                      \
        else CHECK_OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request));                                          \
        CHECK_OK(MPI_Type_free(&type));                                                                                  \
        CHECK_OK(MPI_Op_free(&op));                                                                                      \
        if (form == NONBLOCKING) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                        \
        for (int run = 0; run < 2 && form == PERSISTENT; run++) {                                                        \
            clear(got);                                                                                                  \
            CHECK_OK(MPI_Start(&request));                                                                               \
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                                             \
        }                                                                                                                \
        if (form == PERSISTENT) CHECK_OK(MPI_Request_free(&request));                                                    \
    } while (0)

static void rooted(int form, int root_side, int root)
{
    int here = side == root_side, at_root = here && me == root, gets = !here, mine = name_of(side, me), source = name_of(root_side, root);
    int argument = at_root ? MPI_ROOT : here ? MPI_PROC_NULL : root, other = !side, ones[MOST], displs[MOST];
    for (int r = 0; r < MOST; r++) ones[r] = 1, displs[r] = m - 1 - r;

    clear(given);
    for (int r = 0; r < m; r++) put(given, r, mine, at_root ? name_of(other, r) : source);
    CALL(Gather, gather, given, 1, type, got, 1, type, argument, comm);
    CHECK_BLOCKS("gather", at_root ? m : 0, value(name_of(other, k), source, i));
    CALL(Gatherv, gatherv, given, 1, type, got, ones, displs, type, argument, comm);
    CHECK_BLOCKS("gatherv", at_root ? m : 0, value(name_of(other, m - 1 - k), source, i));
    CALL(Scatter, scatter, given, 1, type, got, 1, type, argument, comm);
    CHECK_BLOCKS("scatter", gets, k * 0 + value(source, mine, i));
    if (at_root)
        for (int r = 0; r < m; r++) put(given, r, mine, name_of(other, m - 1 - r));
    CALL(Scatterv, scatterv, given, ones, displs, type, got, 1, type, argument, comm);
    CHECK_BLOCKS("scatterv", gets, k * 0 + value(source, mine, i));
    put(given, 0, mine, 0);
    if (form == BLOCKING || root == 0) { /* the peers' fault, above */
        CALL(Bcast, bcast, at_root ? given : got, 1, type, argument, comm);
        CHECK_BLOCKS("bcast", gets, k * 0 + value(source, 0, i));
    }
    /* Reductions want one datatype everywhere. */
    int own = gapped;
    gapped = 1;
    clear(given);
    put(given, 0, mine, 0);
    CALL(Reduce, reduce, given, got, 1, type, op, argument, comm);
    CHECK_BLOCKS("reduce", at_root, k * 0 + sum_of(other, m, 0, i));
    gapped = own;
}

static void unrooted(int form)
{
    int other = !side, mine = name_of(side, me), ones[MOST], displs[MOST], bytes[MOST], counts[MOST], root = -1, root_side = -1;
    for (int r = 0; r < MOST; r++) ones[r] = 1, displs[r] = m - 1 - r, bytes[r] = displs[r] * (gapped ? WIDE : N) * (int)sizeof(int);
    clear(given);
    put(given, 0, mine, 0);
    CALL(Allgather, allgather, given, 1, type, got, 1, type, comm);
    CHECK_BLOCKS("allgather", m, value(name_of(other, k), 0, i));
    CALL(Allgatherv, allgatherv, given, 1, type, got, ones, displs, type, comm);
    CHECK_BLOCKS("allgatherv", m, value(name_of(other, m - 1 - k), 0, i));
    for (int r = 0; r < m; r++) put(given, r, mine, name_of(other, r));
    CALL(Alltoall, alltoall, given, 1, type, got, 1, type, comm);
    CHECK_BLOCKS("alltoall", m, value(name_of(other, k), mine, i));
    for (int r = 0; r < m; r++) put(given, m - 1 - r, mine, name_of(other, r));
    CALL(Alltoallv, alltoallv, given, ones, displs, type, got, ones, displs, type, comm);
    CHECK_BLOCKS("alltoallv", m, value(name_of(other, m - 1 - k), mine, i));
    CALL(Alltoallw, alltoallw, given, ones, bytes, types, got, ones, bytes, types, comm);
    CHECK_BLOCKS("alltoallw", m, value(name_of(other, m - 1 - k), mine, i));
    int own = gapped;
    gapped = 1;
    clear(given);
    put(given, 0, mine, 0);
    CALL(Allreduce, allreduce, given, got, 1, type, op, comm);
    CHECK_BLOCKS("allreduce", 1, k * 0 + sum_of(other, m, 0, i));
    for (int r = 0; r < n * m; r++) put(given, r, mine, r);
    CALL(Reduce_scatter_block, reduce_scatter_block, given, got, m, type, op, comm);
    CHECK_BLOCKS("reduce_scatter_block", m, sum_of(other, m, me * m + k, i));
    for (int r = 0; r < n; r++) counts[r] = r == 0 ? n * m - (n - 1) : 1;
    CALL(Reduce_scatter, reduce_scatter, given, got, counts, type, op, comm);
    CHECK_BLOCKS("reduce_scatter", counts[me], sum_of(other, m, (me ? counts[0] + me - 1 : 0) + k, i));
    gapped = own;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int shape = 0; shape < 3; shape++) {
        MPI_Comm local;
        first = shape == 0 ? check_size / 2 : shape == 1 ? 1 : check_size - 1;
        side = check_rank >= first;
        gapped = shape == 0 ? side : (check_rank + shape) % 2;
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, check_rank, &local));
        CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : first, 3, &comm));
        CHECK_OK(MPI_Comm_free(&local));
        CHECK_OK(MPI_Comm_rank(comm, &me));
        CHECK_OK(MPI_Comm_size(comm, &n));
        CHECK_OK(MPI_Comm_remote_size(comm, &m));
        for (int form = BLOCKING; form < FORMS; form++) {
            for (int root_side = 0; root_side < 2; root_side++)
                for (int root = 0, last = (root_side == side ? n : m) - 1; root <= last; root += last ? last : 1) rooted(form, root_side, root);
            unrooted(form);
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return check_end();
}
