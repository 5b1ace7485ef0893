/* Every collective of chapter 6 as data: one description of a call, of its arguments and of what must come out, in the blocking, the
 * nonblocking and the persistent form, with int and with MPI_Count arguments, on intra- and intercommunicators.
 *
 * A program fills a struct work with work_of, and then begins, completes and checks it as often as it likes:
 *
 *     struct work w = work_of(KIND, comm, ...);
 *     work_init(&w);                                          (persistent form only)
 *     work_fill(&w, round); work_begin(&w); work_end(&w); work_check(&w);
 *     work_free(&w);
 *
 * Data are longs; reductions take pairs of them in the variant with an operation that does not commute. */
#ifndef EVERY_H
#define EVERY_H

#include "check.h"

enum kind {
    BARRIER, BCAST, GATHER, GATHERV, SCATTER, SCATTERV, ALLGATHER, ALLGATHERV, ALLTOALL, ALLTOALLV, ALLTOALLW, REDUCE, ALLREDUCE,
    REDUCE_SCATTER_BLOCK, REDUCE_SCATTER, SCAN, EXSCAN, KINDS
};
enum form { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
enum { MOST = 16, NOTHING = -77 };

struct work {
    enum kind kind;
    enum form form;
    int large;      /* whether the MPI_Count form is called */
    int in_place;   /* intracommunicators only */
    int ordered;    /* reductions: with an operation that does not commute */
    int root;       /* rank in its group */
    int root_side;  /* intercommunicators: the side of the root */
    int count;      /* pairs of longs in the shortest block */
    MPI_Comm comm;
    int inter, side, me, n, m; /* m: members of the other group, or of the only one */
    long seed;
    long *send, *recv;
    int room; /* longs in each buffer */
    int sendcounts[MOST], recvcounts[MOST], sdispls[MOST], rdispls[MOST];
    MPI_Count sendcounts_c[MOST], recvcounts_c[MOST];
    MPI_Aint sdispls_c[MOST], rdispls_c[MOST];
    MPI_Datatype types[MOST];
    MPI_Request request;
};

static MPI_Datatype pair_type = MPI_DATATYPE_NULL;
static MPI_Op compose = MPI_OP_NULL, compose_c = MPI_OP_NULL;
static const long PRIME = 1000003;

/* The maps x -> a x + b, composed from the left: associative, not commutative. */
static void compose_pairs(const long *left, long *right, long long count)
{
    for (long long i = 0; i < 2 * count; i += 2) {
        long a = right[i] * left[i] % PRIME, b = (right[i] * left[i + 1] + right[i + 1]) % PRIME;
        right[i] = a, right[i + 1] = b;
    }
}
static void compose_int(void *left, void *right, int *count, MPI_Datatype *type)
{
    if (*type != pair_type) CHECK_FAIL("the operation is told another datatype");
    compose_pairs(left, right, *count);
}
static void compose_large(void *left, void *right, MPI_Count *count, MPI_Datatype *type)
{
    if (*type != pair_type) CHECK_FAIL("the operation is told another datatype");
    compose_pairs(left, right, *count);
}

static inline void every_start(void)
{
    CHECK_OK(MPI_Type_contiguous(2, MPI_LONG, &pair_type));
    CHECK_OK(MPI_Type_commit(&pair_type));
    CHECK_OK(MPI_Op_create(compose_int, 0, &compose));
    CHECK_OK(MPI_Op_create_c(compose_large, 0, &compose_c));
}
static inline void every_end(void)
{
    CHECK_OK(MPI_Type_free(&pair_type));
    CHECK_OK(MPI_Op_free(&compose));
    CHECK_OK(MPI_Op_free(&compose_c));
}

static inline int is_rooted(enum kind kind)
{
    return kind == BCAST || kind == GATHER || kind == GATHERV || kind == SCATTER || kind == SCATTERV || kind == REDUCE;
}
static inline int reduces(enum kind kind) { return kind >= REDUCE; }

/* What process `from` of a side gives for process `to`, element i. */
static inline long value(const struct work *w, int side, int from, int to, int i)
{
    return (w->seed * 7919 + side * 50021 + from * 1009 + to * 131 + i * 3 + 1) % PRIME;
}
/* Longs that `from` gives `to` in the v forms; the same in both directions, as MPI_IN_PLACE wants it. */
static inline int length_v(const struct work *w, int from, int to) { return 2 * w->count + (from + to) % 3; }
/* Elements of each block that member `rank` of a group gets from MPI_Reduce_scatter, in pairs; the sum must not depend on the group. */
static inline int part_of(const struct work *w, int rank, int members)
{
    int total = 24 * w->count + 5;
    return rank == members - 1 ? total - (members - 1) * (total / members) : total / members;
}

static inline int i_am_root(const struct work *w) { return (!w->inter || w->side == w->root_side) && w->me == w->root; }
/* Whether the call moves data to or from this process. */
static inline int takes_part(const struct work *w) { return !w->inter || w->side != w->root_side || w->me == w->root; }
static inline int root_argument(const struct work *w)
{
    if (!w->inter || w->side != w->root_side) return w->root;
    return w->me == w->root ? MPI_ROOT : MPI_PROC_NULL;
}
/* Pairs (or pairs' worth of longs) in the vector of a reduction. */
static inline int vector_of(const struct work *w)
{
    switch (w->kind) {
    case REDUCE_SCATTER: return 24 * w->count + 5;
    case REDUCE_SCATTER_BLOCK: return w->count * (w->inter ? w->n * w->m : w->n);
    default: return w->count;
    }
}
static inline int block_of(const struct work *w) { return w->inter ? w->count * w->m : w->count; }

static inline struct work work_of(enum kind kind, enum form form, MPI_Comm comm, int count)
{
    struct work w;
    memset(&w, 0, sizeof w);
    w.kind = kind, w.form = form, w.comm = comm, w.count = count, w.request = MPI_REQUEST_NULL;
    CHECK_OK(MPI_Comm_rank(comm, &w.me));
    CHECK_OK(MPI_Comm_size(comm, &w.n));
    CHECK_OK(MPI_Comm_test_inter(comm, &w.inter));
    w.m = w.n;
    if (w.inter) CHECK_OK(MPI_Comm_remote_size(comm, &w.m));
    /* A block from each member (of an intercommunicator's reduction, one for each member of both groups), or what REDUCE_SCATTER shares out. */
    w.room = (w.inter ? w.n * w.m : w.n) * (2 * count + 4) + 48 * count + 64;
    w.send = check_alloc(sizeof(long) * (size_t)w.room);
    w.recv = check_alloc(sizeof(long) * (size_t)w.room);
    return w;
}
static inline void work_free(struct work *w)
{
    if (w->form == PERSISTENT) CHECK_OK(MPI_Request_free(&w->request));
    CHECK(w->request == MPI_REQUEST_NULL);
    free(w->send);
    free(w->recv);
}

/* The arrays of the v and w forms; blocks come in reverse order with gaps. */
static inline void work_arrays(struct work *w)
{
    int gap = 2 * w->count + 4;
    for (int r = 0; r < w->m; r++) {
        int gathered = w->kind == GATHERV || w->kind == ALLGATHERV, scattered = w->kind == SCATTERV;
        w->recvcounts[r] = gathered ? length_v(w, r, 0) : length_v(w, r, w->me);
        w->sendcounts[r] = scattered ? length_v(w, r, 0) : length_v(w, w->me, r);
        w->sdispls[r] = w->rdispls[r] = (w->m - 1 - r) * gap;
        if (w->kind == ALLTOALLW) w->sdispls[r] *= (int)sizeof(long), w->rdispls[r] *= (int)sizeof(long);
        w->types[r] = MPI_LONG;
    }
    if (w->kind == REDUCE_SCATTER)
        for (int r = 0; r < w->n; r++) w->recvcounts[r] = part_of(w, r, w->n) * (w->ordered ? 1 : 2);
    for (int r = 0; r < MOST; r++) {
        w->sendcounts_c[r] = w->sendcounts[r], w->recvcounts_c[r] = w->recvcounts[r];
        w->sdispls_c[r] = w->sdispls[r], w->rdispls_c[r] = w->rdispls[r];
    }
}

/* Data of one round. What stands in the buffers before must not matter. */
static inline void work_fill(struct work *w, long seed)
{
    int k = 2 * w->count, gap = k + 4, me = w->me, m = w->m, side = w->side;
    w->seed = seed;
    for (int i = 0; i < w->room; i++) w->send[i] = w->recv[i] = NOTHING;
    /* Only a root can give its part of a gather or a reduce in place. */
    int in_place = w->in_place && ((w->kind != GATHER && w->kind != GATHERV && w->kind != REDUCE) || i_am_root(w));
    long *from = in_place ? w->recv : w->send;
    switch (w->kind) {
    case BARRIER: break;
    case BCAST:
        if (i_am_root(w))
            for (int i = 0; i < k; i++) w->recv[i] = value(w, side, me, 0, i);
        break;
    case GATHER:
    case ALLGATHER:
        for (int i = 0; i < k; i++) from[i + (in_place ? me * k : 0)] = value(w, side, me, 0, i);
        break;
    case GATHERV:
    case ALLGATHERV:
        for (int i = 0; i < length_v(w, me, 0); i++)
            from[i + (in_place ? (m - 1 - me) * gap : 0)] = value(w, side, me, 0, i);
        break;
    case SCATTER:
        if (i_am_root(w))
            for (int r = 0; r < m; r++)
                for (int i = 0; i < k; i++) w->send[r * k + i] = value(w, side, me, r, i);
        break;
    case SCATTERV:
        if (i_am_root(w))
            for (int r = 0; r < m; r++)
                for (int i = 0; i < length_v(w, r, 0); i++) w->send[(m - 1 - r) * gap + i] = value(w, side, me, r, i);
        break;
    case ALLTOALL:
        for (int r = 0; r < m; r++)
            for (int i = 0; i < k; i++) from[r * k + i] = value(w, side, me, r, i);
        break;
    case ALLTOALLV:
    case ALLTOALLW:
        for (int r = 0; r < m; r++)
            for (int i = 0; i < length_v(w, me, r); i++) from[(m - 1 - r) * gap + i] = value(w, side, me, r, i);
        break;
    default:
        for (int i = 0; i < 2 * vector_of(w); i++) from[i] = value(w, side, me, 0, i);
    }
}

#define FORMS_OF(Name, name, ...)                                                                      \
    do {                                                                                               \
        if (w->form == BLOCKING) CHECK_OK(MPI_##Name(__VA_ARGS__));                                    \
        else if (w->form == NONBLOCKING) CHECK_OK(MPI_I##name(__VA_ARGS__, &w->request));              \
        else CHECK_OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &w->request));                     \
    } while (0)
#define FORMS_OF_LARGE(Name, name, ...)                                                                \
    do {                                                                                               \
        if (w->form == BLOCKING) CHECK_OK(MPI_##Name##_c(__VA_ARGS__));                                \
        else if (w->form == NONBLOCKING) CHECK_OK(MPI_I##name##_c(__VA_ARGS__, &w->request));          \
        else CHECK_OK(MPI_##Name##_init_c(__VA_ARGS__, MPI_INFO_NULL, &w->request));                   \
    } while (0)
#define BOTH(Name, name, ...)                                          \
    do {                                                               \
        if (w->large) FORMS_OF_LARGE(Name, name, __VA_ARGS__);         \
        else FORMS_OF(Name, name, __VA_ARGS__);                        \
    } while (0)
#define ARRAYS(Name, name, small, big)                                 \
    do {                                                               \
        if (w->large) FORMS_OF_LARGE big;                              \
        else FORMS_OF small;                                           \
    } while (0)

/* The call: blocking, nonblocking, or the making of the persistent request. */
static inline void work_call(struct work *w)
{
    int k = 2 * w->count, root = root_argument(w), at_root = i_am_root(w);
    MPI_Comm comm = w->comm;
    void *in_place = MPI_IN_PLACE;
    const void *send = w->in_place ? in_place : w->send;
    void *recv = w->recv;
    MPI_Datatype type = w->ordered ? pair_type : MPI_LONG;
    /* Both function forms, each in calls of both forms. */
    MPI_Op op = !w->ordered ? MPI_SUM : (w->large + w->kind) % 2 ? compose_c : compose;
    int vector = vector_of(w) * (w->ordered ? 1 : 2), block = block_of(w) * (w->ordered ? 1 : 2);
    /* Arguments that mean nothing at this process. */
    if (is_rooted(w->kind) && w->in_place && !at_root && w->kind != SCATTER && w->kind != SCATTERV) send = w->send;
    if (w->inter && is_rooted(w->kind) && w->kind != BCAST && !takes_part(w)) send = NULL, recv = NULL;
    if (w->inter && w->kind == REDUCE && !takes_part(w)) type = MPI_BYTE; /* for which no op of these is defined */
    work_arrays(w);
    switch (w->kind) {
    case BARRIER: FORMS_OF(Barrier, barrier, comm); break;
    case BCAST: BOTH(Bcast, bcast, recv, k, MPI_LONG, root, comm); break;
    case GATHER: BOTH(Gather, gather, send, k, MPI_LONG, recv, k, MPI_LONG, root, comm); break;
    case SCATTER:
        BOTH(Scatter, scatter, w->send, k, MPI_LONG, w->in_place && at_root ? in_place : recv, k, MPI_LONG, root, comm);
        break;
    case ALLGATHER: BOTH(Allgather, allgather, send, k, MPI_LONG, recv, k, MPI_LONG, comm); break;
    case ALLTOALL: BOTH(Alltoall, alltoall, send, k, MPI_LONG, recv, k, MPI_LONG, comm); break;
    case REDUCE: BOTH(Reduce, reduce, send, recv, vector, type, op, root, comm); break;
    case ALLREDUCE: BOTH(Allreduce, allreduce, send, recv, vector, type, op, comm); break;
    case SCAN: BOTH(Scan, scan, send, recv, vector, type, op, comm); break;
    case EXSCAN: BOTH(Exscan, exscan, send, recv, vector, type, op, comm); break;
    case REDUCE_SCATTER_BLOCK:
        BOTH(Reduce_scatter_block, reduce_scatter_block, send, recv, block, type, op, comm);
        break;
    case GATHERV: {
        int mine = length_v(w, w->me, 0);
        ARRAYS(Gatherv, gatherv,
               (Gatherv, gatherv, send, mine, MPI_LONG, recv, w->recvcounts, w->rdispls, MPI_LONG, root, comm),
               (Gatherv, gatherv, send, mine, MPI_LONG, recv, w->recvcounts_c, w->rdispls_c, MPI_LONG, root, comm));
        break;
    }
    case SCATTERV: {
        int mine = length_v(w, w->me, 0);
        void *into = w->in_place && at_root ? in_place : recv;
        ARRAYS(Scatterv, scatterv,
               (Scatterv, scatterv, w->send, w->sendcounts, w->sdispls, MPI_LONG, into, mine, MPI_LONG, root, comm),
               (Scatterv, scatterv, w->send, w->sendcounts_c, w->sdispls_c, MPI_LONG, into, mine, MPI_LONG, root, comm));
        break;
    }
    case ALLGATHERV: {
        int mine = length_v(w, w->me, 0);
        ARRAYS(Allgatherv, allgatherv,
               (Allgatherv, allgatherv, send, mine, MPI_LONG, recv, w->recvcounts, w->rdispls, MPI_LONG, comm),
               (Allgatherv, allgatherv, send, mine, MPI_LONG, recv, w->recvcounts_c, w->rdispls_c, MPI_LONG, comm));
        break;
    }
    case ALLTOALLV:
        ARRAYS(Alltoallv, alltoallv,
               (Alltoallv, alltoallv, send, w->sendcounts, w->sdispls, MPI_LONG, recv, w->recvcounts, w->rdispls, MPI_LONG, comm),
               (Alltoallv, alltoallv, send, w->sendcounts_c, w->sdispls_c, MPI_LONG, recv, w->recvcounts_c, w->rdispls_c, MPI_LONG,
                comm));
        break;
    case ALLTOALLW:
        ARRAYS(Alltoallw, alltoallw,
               (Alltoallw, alltoallw, send, w->sendcounts, w->sdispls, w->types, recv, w->recvcounts, w->rdispls, w->types, comm),
               (Alltoallw, alltoallw, send, w->sendcounts_c, w->sdispls_c, w->types, recv, w->recvcounts_c, w->rdispls_c, w->types,
                comm));
        break;
    case REDUCE_SCATTER:
        ARRAYS(Reduce_scatter, reduce_scatter, (Reduce_scatter, reduce_scatter, send, recv, w->recvcounts, type, op, comm),
               (Reduce_scatter, reduce_scatter, send, recv, w->recvcounts_c, type, op, comm));
        break;
    default: break;
    }
}

static inline void work_init(struct work *w) { work_call(w); }
static inline void work_begin(struct work *w)
{
    if (w->form == PERSISTENT) CHECK_OK(MPI_Start(&w->request));
    else work_call(w);
}
static inline void work_end(struct work *w)
{
    if (w->form != BLOCKING) CHECK_OK(MPI_Wait(&w->request, MPI_STATUS_IGNORE));
    if (w->form == PERSISTENT) CHECK(w->request != MPI_REQUEST_NULL);
}

/* The reduction of what members 0 to last of a side give, element i (of a pair, when ordered). */
static inline long reduced(const struct work *w, int side, int members, int i)
{
    if (!w->ordered) {
        long sum = 0;
        for (int r = 0; r < members; r++) sum += value(w, side, r, 0, i);
        return sum;
    }
    long all[2] = {value(w, side, 0, 0, i & ~1), value(w, side, 0, 0, i | 1)};
    for (int r = 1; r < members; r++) {
        long next[2] = {value(w, side, r, 0, i & ~1), value(w, side, r, 0, i | 1)};
        compose_pairs(all, next, 1);
        all[0] = next[0], all[1] = next[1];
    }
    return all[i & 1];
}

#define CHECK_LONG(got, wanted)                                                                                       \
    do {                                                                                                              \
        long got_ = (got), wanted_ = (wanted);                                                                        \
        if (got_ != wanted_)                                                                                          \
            CHECK_FAIL("kind %d form %d large %d in_place %d ordered %d root %d/%d count %d element %d: got %ld, wanted %ld", \
                       w->kind, w->form, w->large, w->in_place, w->ordered, w->root_side, w->root, w->count, i, got_, wanted_); \
    } while (0)

static inline void work_check(const struct work *w)
{
    int k = 2 * w->count, gap = k + 4, me = w->me, m = w->m, end = 0, other = w->inter ? !w->side : w->side;
    int gets = is_rooted(w->kind) && w->inter ? w->side != w->root_side : 1; /* at the end of a bcast or scatter */
    switch (w->kind) {
    case BARRIER: break;
    case BCAST:
        if (gets || i_am_root(w))
            for (int i = 0; i < k; i++) CHECK_LONG(w->recv[i], value(w, w->root_side, w->root, 0, i));
        end = gets || i_am_root(w) ? k : 0;
        break;
    case GATHER:
    case ALLGATHER:
        if (w->kind == ALLGATHER || i_am_root(w)) {
            for (int r = 0; r < m; r++)
                for (int i = 0; i < k; i++) CHECK_LONG(w->recv[r * k + i], value(w, other, r, 0, i));
            end = m * k;
        } 
        break;
    case GATHERV:
    case ALLGATHERV:
        if (w->kind == ALLGATHERV || i_am_root(w)) {
            for (int r = 0; r < m; r++) {
                for (int i = 0; i < length_v(w, r, 0); i++) CHECK_LONG(w->recv[(m - 1 - r) * gap + i], value(w, other, r, 0, i));
                for (int i = length_v(w, r, 0); i < gap; i++) CHECK_LONG(w->recv[(m - 1 - r) * gap + i], NOTHING);
            }
            end = m * gap;
        } 
        break;
    case SCATTER:
    case SCATTERV:
        if (gets && !(w->in_place && i_am_root(w))) {
            end = w->kind == SCATTER ? k : length_v(w, me, 0);
            for (int i = 0; i < end; i++) CHECK_LONG(w->recv[i], value(w, w->root_side, w->root, me, i));
        }
        break;
    case ALLTOALL:
        for (int r = 0; r < m; r++)
            for (int i = 0; i < k; i++) CHECK_LONG(w->recv[r * k + i], value(w, other, r, me, i));
        end = m * k;
        break;
    case ALLTOALLV:
    case ALLTOALLW:
        for (int r = 0; r < m; r++) {
            for (int i = 0; i < length_v(w, r, me); i++) CHECK_LONG(w->recv[(m - 1 - r) * gap + i], value(w, other, r, me, i));
            for (int i = length_v(w, r, me); i < gap; i++) CHECK_LONG(w->recv[(m - 1 - r) * gap + i], NOTHING);
        }
        end = m * gap;
        break;
    case REDUCE:
        if (i_am_root(w)) {
            for (int i = 0; i < k; i++) CHECK_LONG(w->recv[i], reduced(w, other, m, i));
            end = k;
        } 
        break;
    case ALLREDUCE:
        for (int i = 0; i < k; i++) CHECK_LONG(w->recv[i], reduced(w, other, m, i));
        end = k;
        break;
    case REDUCE_SCATTER_BLOCK: {
        int block = 2 * block_of(w);
        for (int i = 0; i < block; i++) CHECK_LONG(w->recv[i], reduced(w, other, m, me * block + i));
        end = w->in_place ? -1 : block;
        break;
    }
    case REDUCE_SCATTER: {
        int before = 0;
        for (int r = 0; r < me; r++) before += 2 * part_of(w, r, w->n);
        for (int i = 0; i < 2 * part_of(w, me, w->n); i++) CHECK_LONG(w->recv[i], reduced(w, other, m, before + i));
        end = w->in_place ? -1 : 2 * part_of(w, me, w->n);
        break;
    }
    case SCAN:
        for (int i = 0; i < k; i++) CHECK_LONG(w->recv[i], reduced(w, w->side, me + 1, i));
        end = k;
        break;
    case EXSCAN:
        if (me > 0)
            for (int i = 0; i < k; i++) CHECK_LONG(w->recv[i], reduced(w, w->side, me, i));
        else if (w->in_place) /* stays as it was */
            for (int i = 0; i < k; i++) CHECK_LONG(w->recv[i], value(w, w->side, me, 0, i));
        end = me > 0 || w->in_place ? k : -1;
        break;
    default: break;
    }
    if (end >= 0)
        for (int i = end; i < end + 4; i++) CHECK_LONG(w->recv[i], NOTHING);
}

#endif
