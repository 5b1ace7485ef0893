/* Thousands of nonblocking collectives of one communicator under way at once, more than any device or table of an implementation has
 * places for, beside some of others; completed in reverse, at random, and all in one call.
 *
 * Covers: 6.12
 * Ranks: 2 3 4
 * Timeout: 120
 */
#include "check.h"

enum { MANY = 3000, LONG = 400, KINDS = 5 };

static int in[MANY][8], out[MANY][8], *longs[2];
static MPI_Request requests[MANY];

static int *wide(int i, int side)
{
    return longs[side] + (size_t)(i / 50) * LONG;
}

static void begin(int i, MPI_Comm comm, int turn)
{
    int me = check_rank, n = check_size;
    for (int k = 0; k < 8; k++) in[i][k] = turn + 10 * i + 1000000 * me + k, out[i][k] = -1;
    if (i % 50 == 7) {
        for (int k = 0; k < LONG; k++) wide(i, 0)[k] = turn + i + k + me, wide(i, 1)[k] = -1;
        CHECK_OK(MPI_Iallreduce(wide(i, 0), wide(i, 1), LONG, MPI_INT, MPI_SUM, comm, &requests[i]));
        return;
    }
    switch (i % KINDS) {
    case 0: CHECK_OK(MPI_Ibarrier(comm, &requests[i])); break;
    case 1:
        if (me == i % n) memcpy(out[i], in[i], sizeof in[i]);
        CHECK_OK(MPI_Ibcast(out[i], 8, MPI_INT, i % n, comm, &requests[i]));
        break;
    case 2: CHECK_OK(MPI_Iallreduce(in[i], out[i], 2, MPI_INT, MPI_MAX, comm, &requests[i])); break;
    case 3: CHECK_OK(MPI_Ialltoall(in[i], 1, MPI_INT, out[i], 1, MPI_INT, comm, &requests[i])); break;
    default: CHECK_OK(MPI_Iscan(in[i], out[i], 1, MPI_INT, MPI_MAX, comm, &requests[i]));
    }
}

static void look(int i, int turn)
{
    int me = check_rank, n = check_size, base = turn + 10 * i;
    CHECK(requests[i] == MPI_REQUEST_NULL);
    if (i % 50 == 7) {
        for (int k = 0; k < LONG; k++) CHECK_INT(wide(i, 1)[k], n * (turn + i + k) + n * (n - 1) / 2);
        return;
    }
    switch (i % KINDS) {
    case 0: break;
    case 1:
        for (int k = 0; k < 8; k++) CHECK_INT(out[i][k], base + 1000000 * (i % n) + k);
        break;
    case 2: CHECK_INT(out[i][1], base + 1000000 * (n - 1) + 1); break;
    case 3:
        for (int k = 0; k < n; k++) CHECK_INT(out[i][k], base + 1000000 * k + me);
        break;
    default: CHECK_INT(out[i][0], base + 1000000 * me);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm other;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, check_rank, &other));
    for (int side = 0; side < 2; side++) longs[side] = check_alloc(sizeof(int) * LONG * (MANY / 50 + 1));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < MANY; i++) begin(i, i % 7 == 3 ? other : MPI_COMM_WORLD, turn);
        if (turn == 0)
            CHECK_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
        else if (turn == 1)
            for (int i = MANY - 1; i >= 0; i--) CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        else
            for (int k = 0; k < MANY; k++) CHECK_OK(MPI_Wait(&requests[(k * 7 + 11 * check_rank) % MANY], MPI_STATUS_IGNORE));
        for (int i = 0; i < MANY; i++) look(i, turn);
    }
    for (int side = 0; side < 2; side++) free(longs[side]);
    CHECK_OK(MPI_Comm_free(&other));
    return check_end();
}
