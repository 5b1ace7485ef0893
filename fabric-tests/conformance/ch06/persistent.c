/* Every collective as a persistent request: made once, started again and again with other data, all of them alive on one
 * communicator, started in an order that differs from rank to rank (MPI_Start) or all at once (MPI_Startall), with blocking,
 * nonblocking and point-to-point calls in between, which match none of them; types, operations and the communicator freed first.
 *
 * Covers: 6.13, 6.12, 7.4.3
 * Ranks: 1 2 3 4 5 6 7 8
 * Timeout: 180
 */
#include "every.h"

static unsigned state = 3;
static unsigned roll(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 8) % n;
}

/* Everything at once, in the rank's own order. */
static void together(MPI_Comm comm, int in_place, int large, int ordered, int count, int root)
{
    struct work all[KINDS];
    MPI_Request requests[KINDS];
    for (int kind = 0; kind < KINDS; kind++) {
        all[kind] = work_of((enum kind)kind, PERSISTENT, comm, count);
        all[kind].in_place = in_place && kind != BARRIER && kind != BCAST;
        all[kind].large = large && kind != BARRIER, all[kind].ordered = ordered && kind >= REDUCE, all[kind].root = root;
        work_init(&all[kind]);
    }
    unsigned shared = state;
    for (int round = 0; round < 4; round++) {
        int order[KINDS];
        state = shared + 17u * (unsigned)(check_rank + 1) * (unsigned)(round + 1);
        for (int kind = 0; kind < KINDS; kind++) order[kind] = kind;
        for (int kind = KINDS - 1; kind > 0; kind--) {
            int with = (int)roll((unsigned)kind + 1), kept = order[kind];
            order[kind] = order[with], order[with] = kept;
        }
        for (int kind = 0; kind < KINDS; kind++) work_fill(&all[kind], 100 * round + kind);
        int sum = -1, one = 1, got = -1, next = (check_rank + 1) % check_size, last = (check_rank + check_size - 1) % check_size;
        MPI_Request nonblocking;
        if (round % 2 == 0)
            for (int i = 0; i < KINDS; i++) {
                CHECK_OK(MPI_Start(&all[order[i]].request));
                if (i == KINDS / 2)
                    CHECK_OK(MPI_Sendrecv(&round, 1, MPI_INT, next, 0, &got, 1, MPI_INT, last, 0, comm, MPI_STATUS_IGNORE));
            }
        else {
            for (int i = 0; i < KINDS; i++) requests[i] = all[order[i]].request;
            CHECK_OK(MPI_Startall(KINDS, requests));
            got = round;
        }
        CHECK_INT(got, round);
        CHECK_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &nonblocking));
        CHECK_OK(MPI_Barrier(comm));
        if (round % 2 == 0)
            for (int i = KINDS - 1; i >= 0; i--) work_end(&all[order[i]]);
        else
            CHECK_OK(MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE));
        CHECK_OK(MPI_Wait(&nonblocking, MPI_STATUS_IGNORE));
        CHECK_INT(sum, check_size);
        for (int kind = 0; kind < KINDS; kind++) work_check(&all[kind]);
    }
    for (int kind = 0; kind < KINDS; kind++) work_free(&all[kind]);
    state = shared + 1;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    const int counts[] = {0, 1, 9, 600};
    for (int c = 0; c < 4; c++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int large = 0; large < 2; large++)
                together(comm, in_place, large, (c + large) % 2, counts[c], (c + in_place) % check_size);
    CHECK_OK(MPI_Comm_free(&comm));

    /* What a request was made from may be freed: it goes on. */
    MPI_Comm gone;
    MPI_Request request, never;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &gone));
    long mine[2], result[2];
    MPI_Datatype type;
    MPI_Op op;
    CHECK_OK(MPI_Type_dup(pair_type, &type));
    MPI_Datatype own = pair_type;
    pair_type = type; /* what the operation is told */
    CHECK_OK(MPI_Op_create(compose_int, 0, &op));
    CHECK_OK(MPI_Allreduce_init(mine, result, 1, type, op, gone, MPI_INFO_NULL, &request));
    CHECK_OK(MPI_Barrier_init(gone, MPI_INFO_NULL, &never));
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Comm_free(&gone));
    for (int round = 0; round < 3; round++) {
        mine[0] = check_rank + 2 + round, mine[1] = check_rank + 1;
        CHECK_OK(MPI_Start(&request));
        int flag = 0;
        while (!flag) CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        CHECK(request != MPI_REQUEST_NULL);
        long wanted[2] = {2 + round, 1};
        for (int r = 1; r < check_size; r++) {
            long next[2] = {r + 2 + round, r + 1};
            compose_pairs(wanted, next, 1);
            wanted[0] = next[0], wanted[1] = next[1];
        }
        CHECK_INT(result[0], wanted[0]);
        CHECK_INT(result[1], wanted[1]);
    }
    /* Inactive ones are done with an empty status, and can be freed. */
    MPI_Status status;
    CHECK_OK(MPI_Wait(&never, &status));
    CHECK_EMPTY(status);
    CHECK(never != MPI_REQUEST_NULL);
    CHECK_OK(MPI_Request_free(&never));
    CHECK_OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Type_free(&type));
    pair_type = own;

    /* An info object with keys nobody knows. */
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "weft_no_such_key", "true"));
    CHECK_OK(MPI_Bcast_init(mine, 2, MPI_LONG, 0, MPI_COMM_WORLD, info, &request));
    CHECK_OK(MPI_Info_free(&info));
    mine[0] = mine[1] = check_rank == 0 ? 5 : 0;
    CHECK_OK(MPI_Start(&request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(mine[1], 5);
    CHECK_OK(MPI_Request_free(&request));
    every_end();
    return check_end();
}
