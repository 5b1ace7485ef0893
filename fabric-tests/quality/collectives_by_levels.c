/* Short collectives of communicators over several nodes: right results of every operation, root and length around the limit, in place and not,
 * in communicators that overlap and whose ranks lie in other orders than the nodes, the same bits at all ranks, one rank late; and who neither
 * stands for its node nor is the root sends no message. (tests/algorithms.rs runs it on several nodes; on one it holds as well.)
 *
 * Covers: 6.3, 6.4, 6.9.1, 6.9.6
 * Ranks: 2 4 5
 * Env: WEFT_TRANSPORT=auto
 * Timeout: 120
 */
#include "counter.h"

enum { MOST = 30, ROUNDS = 3, CALLS = 60 };

/* Doubles whose sum depends on the order. */
static double term(int rank, int i)
{
    double x = 1.0 / (3 + i + rank * 17);
    return (i + rank) % 3 ? x : x * 1e12 * (rank % 2 ? 1 : -1);
}

static void linger(int salt, int rank)
{
    if (salt % 11 == rank) usleep(2000);
}

static void all_of(MPI_Comm comm, int count, int salt)
{
    int me, size, in[MOST], out[MOST];
    double x[MOST], y[MOST], first[MOST];
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &size);
    for (int in_place = 0; in_place < 2; in_place++) {
        for (int i = 0; i < count; i++) {
            in[i] = out[i] = me * (i + 1) + salt;
            x[i] = y[i] = term(me, i);
        }
        linger(salt, me);
        CHECK_OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < count; i++) CHECK_INT(out[i], size * (size - 1) / 2 * (i + 1) + size * salt);
        CHECK_OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : x, y, count, MPI_DOUBLE, MPI_SUM, comm));
        memcpy(first, y, sizeof first);
        CHECK_OK(MPI_Bcast(first, count, MPI_DOUBLE, 0, comm));
        CHECK(memcmp(first, y, sizeof(double) * (size_t)count) == 0);
    }
    CHECK_OK(MPI_Allreduce(in, out, count, MPI_INT, MPI_MAX, comm));
    for (int i = 0; i < count; i++) CHECK_INT(out[i], (size - 1) * (i + 1) + salt);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < count; i++) out[i] = me == root ? root * 100 + i + salt : -1;
        linger(salt + root, me);
        CHECK_OK(MPI_Bcast(out, count, MPI_INT, root, comm));
        for (int i = 0; i < count; i++) CHECK_INT(out[i], root * 100 + i + salt);
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int i = 0; i < count; i++) out[i] = in_place && me == root ? in[i] : -7;
            CHECK_OK(MPI_Reduce(in_place && me == root ? MPI_IN_PLACE : in, out, count, MPI_INT, MPI_SUM, root, comm));
            for (int i = 0; i < count; i++)
                CHECK_INT(out[i], me == root ? size * (size - 1) / 2 * (i + 1) + size * salt : -7);
        }
    }
    /* Types with gaps, and pairs. */
    struct { double value; int index; } best = {me % 2 ? -me : me, me}, found;
    CHECK_OK(MPI_Allreduce(&best, &found, 1, MPI_DOUBLE_INT, MPI_MINLOC, comm));
    CHECK_INT(found.index, size == 1 ? 0 : (size - 1) / 2 * 2 + 1 < size ? (size - 1) / 2 * 2 + 1 : (size - 1) / 2 * 2 - 1);
    CHECK_OK(MPI_Barrier(comm));
}

/* A barrier separates: what all did before it all see after it. */
static void separates(MPI_Comm comm, MPI_Win win, int *board, int turn)
{
    int sum = 0, zero = 0;
    if (turn % check_size == check_rank) usleep(1000);
    CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    int one = 1;
    CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win));
    CHECK_OK(MPI_Win_unlock(0, win));
    CHECK_OK(MPI_Barrier(comm));
    CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    CHECK_OK(MPI_Fetch_and_op(&zero, &sum, MPI_INT, 0, 0, MPI_NO_OP, win));
    CHECK_OK(MPI_Win_unlock(0, win));
    CHECK_INT(sum, (turn + 1) * check_size);
    CHECK_OK(MPI_Barrier(comm));
    (void)board;
}

static void counts(void)
{
    MPI_Comm node;
    int place, leads, nodes, in = check_rank, out;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    CHECK_OK(MPI_Comm_rank(node, &place));
    leads = place == 0;
    CHECK_OK(MPI_Allreduce(&leads, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_OK(MPI_Comm_free(&node));
    for (int kind = 0; kind < 4; kind++) {
        for (int root = 0; root < (kind == 1 || kind == 2 ? check_size : 1); root++) {
            unsigned long long before = counted();
            for (int call = 0; call < CALLS; call++) {
                if (kind == 0) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
                if (kind == 1) CHECK_OK(MPI_Bcast(&in, 1, MPI_INT, root, MPI_COMM_WORLD));
                if (kind == 2) CHECK_OK(MPI_Reduce(&in, &out, 1, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD));
                if (kind == 3) CHECK_OK(MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
            }
            unsigned long long sent = counted() - before;
            if (!leads && check_rank != root) CHECK_INT(sent, 0);
            /* On one node nobody sends any; on several the leaders do not send more than one another's number. */
            if (nodes == 1) CHECK_INT(sent, 0);
            CHECK(sent <= (unsigned long long)(2 * nodes) * CALLS);
            if (nodes > 1 && leads && (kind == 0 || kind == 3)) CHECK(sent > 0);
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[5];
    MPI_Win win;
    int *board;
    check_start(&argc, &argv);
    open_counter("weft_collective_messages");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[1]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank % 2, check_rank, &comms[2]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank == 0 ? MPI_UNDEFINED : 0, 0, &comms[3]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, check_rank * 3 % (check_size | 1), &comms[4]));
    const int lengths[] = {1, 2, 14, 15, 27, 28, 29, 30, 0};
    for (int round = 0; round < ROUNDS; round++)
        for (int length = 0; length < (int)(sizeof lengths / sizeof *lengths); length++)
            for (int comm = 0; comm < 5; comm++)
                if (comms[comm] != MPI_COMM_NULL) all_of(comms[comm], lengths[length], round * 31 + length);
    CHECK_OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &board, &win));
    *board = 0;
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int turn = 0; turn < 12; turn++) separates(comms[turn % 2], win, board, turn);
    CHECK_OK(MPI_Win_free(&win));
    for (int comm = 0; comm < 5; comm++)
        if (comms[comm] != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&comms[comm]));
    counts();
    CHECK_INT(MPI_T_pvar_handle_free(counter_session, &counter_handle), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_session_free(&counter_session), MPI_SUCCESS);
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_end();
}
