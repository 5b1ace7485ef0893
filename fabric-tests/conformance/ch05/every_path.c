/* One message between two layouts on every path there is: MPI_BOTTOM and the absolute addresses of several objects at both ends,
 * both types freed while the operation is pending, persistent or just begun, at sizes from a packet to a stream; the bytes of the
 * type map arrive, the gaps between them keep what they held.
 *
 * Covers: 5.1.9, 5.1.11, 5.1.12, 3.9, 4.2, 6.4 to 6.8, 6.12, 6.13, 8.6, 12.3
 * Ranks: 2
 * Timeout: 120
 */
#include "check.h"

/* Integers of a message; the first half lies in one object, the rest in another. */
static int numbers;
static int *near, *far;
/* What comes from rank r goes to region r. */
static char *regions;
static long region_bytes;
static int peer;
static MPI_Comm comm, line;
static MPI_Win window, dynamic;
static MPI_Aint theirs[2];

enum { STRIDE = 3, BLOCK = 5, APART = 7, HOLE = 0xA5 };

static int value(int rank, int i) { return 1000003 * (rank + 1) + 17 * i; }

static MPI_Datatype committed(MPI_Datatype type)
{
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

/* A strided part and a part of blocks, at two addresses. */
static MPI_Datatype two_parts(MPI_Aint first, MPI_Aint second)
{
    int half = numbers / 2, rest = numbers - half, lengths[3] = {1, 1, rest % BLOCK};
    MPI_Datatype parts[3], type;
    MPI_Aint places[3] = {first, second, second + (MPI_Aint)(rest / BLOCK) * APART * (MPI_Aint)sizeof(int)};
    CHECK_OK(MPI_Type_vector(half, 1, STRIDE, MPI_INT, &parts[0]));
    CHECK_OK(MPI_Type_vector(rest / BLOCK, BLOCK, APART, MPI_INT, &parts[1]));
    parts[2] = MPI_INT;
    CHECK_OK(MPI_Type_create_struct(3, lengths, places, parts, &type));
    CHECK_OK(MPI_Type_free(&parts[0]));
    CHECK_OK(MPI_Type_free(&parts[1]));
    return committed(type);
}

static MPI_Datatype source(void)
{
    MPI_Aint first, second;
    MPI_Get_address(near, &first);
    MPI_Get_address(far, &second);
    return two_parts(first, second);
}

/* Every second integer, the later half first; in all `region_bytes` from one to the next. */
static MPI_Datatype sink_at(MPI_Aint base)
{
    int half = numbers / 2, lengths[2] = {1, 1};
    MPI_Aint places[2] = {base + 2 * (MPI_Aint)half * (MPI_Aint)sizeof(int), base};
    MPI_Datatype parts[2], whole, type;
    CHECK_OK(MPI_Type_vector(numbers - half, 1, 2, MPI_INT, &parts[0]));
    CHECK_OK(MPI_Type_vector(half, 1, 2, MPI_INT, &parts[1]));
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, parts, &whole));
    CHECK_OK(MPI_Type_create_resized(whole, base, region_bytes, &type));
    CHECK_OK(MPI_Type_free(&parts[0]));
    CHECK_OK(MPI_Type_free(&parts[1]));
    CHECK_OK(MPI_Type_free(&whole));
    return committed(type);
}

static MPI_Datatype sink(int rank)
{
    MPI_Aint base;
    MPI_Get_address(regions + rank * region_bytes, &base);
    return sink_at(base);
}

static void fill_all(void)
{
    int half = numbers / 2;
    for (int i = 0; i < numbers; i++) {
        if (i < half) near[i * STRIDE] = value(check_rank, i);
        else far[(i - half) / BLOCK * APART + (i - half) % BLOCK] = value(check_rank, i);
    }
    memset(regions, HOLE, 2 * (size_t)region_bytes);
}

/* Region `rank` holds what that rank sent (all of it, or its first `got` integers), the rest is as it was. */
static void holds(const char *path, int rank, int got)
{
    int *all = (int *)(regions + rank * region_bytes), half = numbers / 2, hole;
    memset(&hole, HOLE, sizeof hole);
    for (int i = 0; i < 2 * numbers; i++) {
        /* The message's first integers are the later half of the region. */
        int number = i % 2 ? -1 : i / 2 >= half ? i / 2 - half : i / 2 + numbers - half;
        int wanted = number >= 0 && number < got ? value(rank, number) : hole;
        if (all[i] != wanted) {
            CHECK_FAIL("%s, %d integers: place %d of region %d holds %x, wanted %x", path, numbers, i, rank, all[i], wanted);
            return;
        }
    }
    CHECK_BYTES(all + 2 * numbers, HOLE, region_bytes - 2L * numbers * (long)sizeof(int));
}

static void begin(MPI_Datatype *out, MPI_Datatype *in)
{
    MPI_Barrier(comm);
    fill_all();
    *out = source();
    *in = sink(peer);
    MPI_Barrier(comm);
}

static void drop(MPI_Datatype *out, MPI_Datatype *in)
{
    CHECK_OK(MPI_Type_free(out));
    CHECK_OK(MPI_Type_free(in));
}

#define BOTH(path, ...)                                        \
    do {                                                         \
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; \
        MPI_Datatype out, in;                                    \
        begin(&out, &in);                                        \
        __VA_ARGS__;                                             \
        drop(&out, &in);                                         \
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)); \
        holds(path, peer, numbers);                              \
    } while (0)

static void point_to_point(void)
{
    BOTH("isend", {
        CHECK_OK(MPI_Irecv(MPI_BOTTOM, 1, in, peer, 1, comm, &requests[0]));
        CHECK_OK(MPI_Isend(MPI_BOTTOM, 1, out, peer, 1, comm, &requests[1]));
    });
    BOTH("issend before the receive", {
        CHECK_OK(MPI_Issend(MPI_BOTTOM, 1, out, peer, 1, comm, &requests[1]));
        MPI_Barrier(comm);
        CHECK_OK(MPI_Irecv(MPI_BOTTOM, 1, in, peer, 1, comm, &requests[0]));
    });
    BOTH("sendrecv", CHECK_OK(MPI_Sendrecv(MPI_BOTTOM, 1, out, peer, 2, MPI_BOTTOM, 1, in, peer, 2, comm, MPI_STATUS_IGNORE)));
    BOTH("isendrecv", CHECK_OK(MPI_Isendrecv(MPI_BOTTOM, 1, out, peer, 2, MPI_BOTTOM, 1, in, peer, 2, comm, &requests[0])));
    BOTH("matched probe", {
        MPI_Message message;
        CHECK_OK(MPI_Isend(MPI_BOTTOM, 1, out, peer, 3, comm, &requests[1]));
        CHECK_OK(MPI_Mprobe(peer, 3, comm, &message, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Imrecv(MPI_BOTTOM, 1, in, &message, &requests[0]));
    });
    BOTH("buffered", {
        int bytes;
        CHECK_OK(MPI_Pack_size(1, out, comm, &bytes));
        void *buffer = check_alloc((size_t)bytes + MPI_BSEND_OVERHEAD);
        CHECK_OK(MPI_Buffer_attach(buffer, bytes + MPI_BSEND_OVERHEAD));
        CHECK_OK(MPI_Bsend(MPI_BOTTOM, 1, out, peer, 4, comm));
        CHECK_OK(MPI_Recv(MPI_BOTTOM, 1, in, peer, 4, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Buffer_detach(&buffer, &bytes));
        free(buffer);
    });
    BOTH("packed", {
        int bytes;
        int position = 0;
        CHECK_OK(MPI_Pack_size(1, out, comm, &bytes));
        char *packed = check_alloc((size_t)bytes);
        CHECK_OK(MPI_Pack(MPI_BOTTOM, 1, out, packed, bytes, &position, comm));
        CHECK_OK(MPI_Isend(packed, position, MPI_PACKED, peer, 5, comm, &requests[1]));
        CHECK_OK(MPI_Recv(MPI_BOTTOM, 1, in, peer, 5, comm, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        free(packed);
    });
    for (int partitioned = 0; partitioned < 2; partitioned++) {
        MPI_Request pair[2];
        MPI_Datatype out, in;
        begin(&out, &in);
        if (partitioned) {
            CHECK_OK(MPI_Precv_init(MPI_BOTTOM, 1, 1, in, peer, 6, comm, MPI_INFO_NULL, &pair[0]));
            CHECK_OK(MPI_Psend_init(MPI_BOTTOM, 1, 1, out, peer, 6, comm, MPI_INFO_NULL, &pair[1]));
        } else {
            CHECK_OK(MPI_Recv_init(MPI_BOTTOM, 1, in, peer, 6, comm, &pair[0]));
            CHECK_OK(MPI_Send_init(MPI_BOTTOM, 1, out, peer, 6, comm, &pair[1]));
        }
        drop(&out, &in);
        for (int round = 0; round < 3; round++) {
            fill_all();
            MPI_Barrier(comm);
            CHECK_OK(MPI_Startall(2, pair));
            if (partitioned) CHECK_OK(MPI_Pready(0, pair[1]));
            CHECK_OK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
            holds(partitioned ? "partitioned" : "persistent", peer, numbers);
            MPI_Barrier(comm);
        }
        CHECK_OK(MPI_Request_free(&pair[0]));
        CHECK_OK(MPI_Request_free(&pair[1]));
    }
}

/* Cut off in the middle of the type map: what fits arrives, the rest of the room stays. */
static void truncated(void)
{
    MPI_Request requests[2];
    MPI_Datatype out, in;
    MPI_Status status;
    int fits = numbers - numbers / 2, shorter = numbers / 3;
    begin(&out, &in);
    /* Room for one element, and twice as much comes. */
    MPI_Datatype twice;
    CHECK_OK(MPI_Irecv(MPI_BOTTOM, 1, in, peer, 7, comm, &requests[0]));
    CHECK_OK(MPI_Type_create_resized(out, 0, 0, &twice));
    CHECK_OK(MPI_Type_commit(&twice));
    CHECK_OK(MPI_Isend(MPI_BOTTOM, 2, twice, peer, 7, comm, &requests[1]));
    CHECK_OK(MPI_Type_free(&twice));
    CHECK_CLASS(MPI_Wait(&requests[0], &status), MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
#ifndef MPICH_VERSION
    holds("truncated", peer, numbers);
#endif
    drop(&out, &in);
    for (int which = 0; which < 2; which++) {
        /* A message that is shorter than its room. */
        int count = which ? shorter : fits;
        begin(&out, &in);
        MPI_Datatype flat;
        MPI_Aint address;
        int *plain = check_alloc(sizeof(int) * (size_t)count);
        for (int i = 0; i < count; i++) plain[i] = value(check_rank, i);
        MPI_Get_address(plain, &address);
        CHECK_OK(MPI_Type_create_hindexed_block(1, count, &address, MPI_INT, &flat));
        CHECK_OK(MPI_Type_commit(&flat));
        CHECK_OK(MPI_Irecv(MPI_BOTTOM, 1, in, peer, 8, comm, &requests[0]));
        CHECK_OK(MPI_Isend(MPI_BOTTOM, 1, flat, peer, 8, comm, &requests[1]));
        CHECK_OK(MPI_Type_free(&flat));
        drop(&out, &in);
        CHECK_OK(MPI_Wait(&requests[0], &status));
        CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        CHECK_STATUS(status, peer, 8, MPI_INT, count);
        holds("shorter", peer, count);
        free(plain);
    }
}

/* Collectives that put what rank r sent into region r. `copies` is the source without extent, so that each of several elements of
 * it is the same; `in` begins with region 0. */
#define ALL(path, ...)                                                     \
    do {                                                                     \
        MPI_Request request = MPI_REQUEST_NULL;                              \
        MPI_Datatype out, in, copies;                                        \
        begin(&out, &in);                                                    \
        CHECK_OK(MPI_Type_free(&in));                                        \
        in = sink(0);                                                        \
        CHECK_OK(MPI_Type_create_resized(out, 0, 0, &copies));               \
        CHECK_OK(MPI_Type_commit(&copies));                                  \
        __VA_ARGS__;                                                         \
        drop(&out, &in);                                                     \
        CHECK_OK(MPI_Type_free(&copies));                                    \
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                     \
        for (int r = 0; r < 2; r++) holds(path, r, numbers);                 \
    } while (0)

static void collectives(void)
{
    int ones[2] = {1, 1}, zeros[2] = {0, 0}, steps[2] = {0, 1};
    MPI_Aint none[2] = {0, 0};
    ALL("allgather", CHECK_OK(MPI_Allgather(MPI_BOTTOM, 1, out, MPI_BOTTOM, 1, in, comm)));
    ALL("iallgather", CHECK_OK(MPI_Iallgather(MPI_BOTTOM, 1, out, MPI_BOTTOM, 1, in, comm, &request)));
    ALL("iallgatherv", CHECK_OK(MPI_Iallgatherv(MPI_BOTTOM, 1, out, MPI_BOTTOM, ones, steps, in, comm, &request)));
    ALL("alltoall", CHECK_OK(MPI_Alltoall(MPI_BOTTOM, 1, copies, MPI_BOTTOM, 1, in, comm)));
    ALL("ialltoallv", {
        CHECK_OK(MPI_Ialltoallv(MPI_BOTTOM, ones, zeros, copies, MPI_BOTTOM, ones, steps, in, comm, &request));
        MPI_Wait(&request, MPI_STATUS_IGNORE); /* The arrays are this block's. */
    });
    ALL("alltoallw", {
        MPI_Datatype outs[2] = {out, out};
        MPI_Datatype ins[2] = {in, sink(1)};
        CHECK_OK(MPI_Alltoallw(MPI_BOTTOM, ones, zeros, outs, MPI_BOTTOM, ones, zeros, ins, comm));
        CHECK_OK(MPI_Type_free(&ins[1]));
    });
    ALL("ineighbor_allgather", {
        /* Two neighbours along a ring of two are the same process: each sends what the other's two regions get. */
        int ranks[2] = {0, 1};
        MPI_Comm graph;
        CHECK_OK(MPI_Dist_graph_create_adjacent(comm, 2, ranks, MPI_UNWEIGHTED, 2, ranks, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                                &graph));
        CHECK_OK(MPI_Ineighbor_allgather(MPI_BOTTOM, 1, out, MPI_BOTTOM, 1, in, graph, &request));
        CHECK_OK(MPI_Comm_free(&graph));
    });
    ALL("neighbor_alltoallw", {
        MPI_Datatype outs[2] = {out, out};
        MPI_Datatype ins[2] = {in, sink(1)};
        CHECK_OK(MPI_Neighbor_alltoallw(MPI_BOTTOM, ones, none, outs, MPI_BOTTOM, ones, none, ins, line));
        CHECK_OK(MPI_Type_free(&ins[1]));
    });
    ALL("bcast", {
        MPI_Datatype second = sink(1);
        CHECK_OK(MPI_Bcast(MPI_BOTTOM, 1, check_rank == 0 ? out : in, 0, comm));
        CHECK_OK(MPI_Ibcast(MPI_BOTTOM, 1, check_rank == 1 ? out : second, 1, comm, &request));
        /* The root has its own from a message to itself. */
        CHECK_OK(MPI_Sendrecv(MPI_BOTTOM, 1, out, check_rank, 9, MPI_BOTTOM, 1, check_rank ? second : in, check_rank, 9, comm,
                              MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Type_free(&second));
    });
    ALL("gather and scatter", {
        MPI_Datatype second = sink(1);
        for (int root = 0; root < 2; root++) {
            CHECK_OK(MPI_Gather(MPI_BOTTOM, 1, out, MPI_BOTTOM, 1, in, root, comm));
            CHECK_OK(MPI_Iscatter(MPI_BOTTOM, 1, copies, MPI_BOTTOM, 1, root ? second : in, root, comm, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        CHECK_OK(MPI_Type_free(&second));
    });
}

/* Origins with absolute addresses; a window, and memory of several objects attached to a dynamic one. */
static void one_sided(void)
{
    MPI_Request request;
    for (int way = 0; way < 4; way++) {
        MPI_Datatype out, in, target = MPI_DATATYPE_NULL;
        begin(&out, &in);
        CHECK_OK(MPI_Win_lock_all(0, window));
        CHECK_OK(MPI_Win_lock_all(0, dynamic));
        if (way < 2) {
            target = sink_at(0);
            MPI_Aint disp = check_rank * region_bytes;
            if (way == 0) CHECK_OK(MPI_Put(MPI_BOTTOM, 1, out, peer, disp, 1, target, window));
            if (way == 1) {
                CHECK_OK(MPI_Rput(MPI_BOTTOM, 1, out, peer, disp, 1, target, window, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
        } else {
            target = two_parts(theirs[0], theirs[1]);
            if (way == 2) CHECK_OK(MPI_Get(MPI_BOTTOM, 1, in, peer, 0, 1, target, dynamic));
            if (way == 3) {
                CHECK_OK(MPI_Get_accumulate(NULL, 0, MPI_INT, MPI_BOTTOM, 1, in, peer, 0, 1, target, MPI_NO_OP, dynamic));
            }
        }
        CHECK_OK(MPI_Type_free(&target));
        drop(&out, &in);
        CHECK_OK(MPI_Win_unlock_all(dynamic));
        CHECK_OK(MPI_Win_unlock_all(window));
        MPI_Barrier(comm);
        static const char *const ways[4] = {"put", "rput", "get", "get_accumulate"};
        holds(ways[way], peer, numbers);
    }
}

int main(int argc, char **argv)
{
    static const int sizes[] = {7, 300, 5000, 40000, 300000};
    check_start(&argc, &argv);
    peer = 1 - check_rank;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        numbers = sizes[i];
        near = check_alloc(sizeof(int) * (size_t)numbers * STRIDE);
        far = check_alloc(sizeof(int) * (size_t)numbers * 2);
        region_bytes = 2L * numbers * (long)sizeof(int) + 64;
        regions = check_alloc(2 * (size_t)region_bytes);
        CHECK_OK(MPI_Win_create(regions, 2 * region_bytes, 1, MPI_INFO_NULL, comm, &window));
        CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &dynamic));
        CHECK_OK(MPI_Win_attach(dynamic, near, (MPI_Aint)sizeof(int) * numbers * STRIDE));
        CHECK_OK(MPI_Win_attach(dynamic, far, (MPI_Aint)sizeof(int) * numbers * 2));
        MPI_Aint mine[2];
        MPI_Get_address(near, &mine[0]);
        MPI_Get_address(far, &mine[1]);
        CHECK_OK(MPI_Sendrecv(mine, 2, MPI_AINT, peer, 0, theirs, 2, MPI_AINT, peer, 0, comm, MPI_STATUS_IGNORE));
        int ranks[2] = {0, 1};
        CHECK_OK(MPI_Dist_graph_create_adjacent(comm, 2, ranks, MPI_UNWEIGHTED, 2, ranks, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &line));
        point_to_point();
        truncated();
        collectives();
        one_sided();
        CHECK_OK(MPI_Comm_free(&line));
        CHECK_OK(MPI_Win_detach(dynamic, near));
        CHECK_OK(MPI_Win_detach(dynamic, far));
        CHECK_OK(MPI_Win_free(&dynamic));
        CHECK_OK(MPI_Win_free(&window));
        free(near), free(far), free(regions);
    }
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
