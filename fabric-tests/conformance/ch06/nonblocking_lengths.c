/* Nonblocking collectives of all lengths, many under way at once and beside blocking ones of the same communicator, completed in any order; each also as
 * the first long one on a new communicator, before and after a blocking one.
 *
 * Covers: 6.12
 * Ranks: 1 2 3 4 5 8
 * Timeout: 120
 */
#include "check.h"

enum { UNDER_WAY = 6, MOST = 120000 };

static const int counts[] = {1, 14, 15, 500, 4100, 9000, 30000};
enum { COUNTS = sizeof counts / sizeof *counts };

static int value(int from, int to, int i, int number)
{
    return from * 7919 + to * 104729 + i * 31 + number * 17;
}

struct under_way {
    int kind, count, root, number;
    int *in, *out;
};

static void start(struct under_way *one, MPI_Comm comm, MPI_Request *request)
{
    int n = one->count, me = check_rank;
    for (int to = 0; to < check_size; to++)
        for (int i = 0; i < n; i++) one->in[to * n + i] = value(me, one->kind == 2 ? to : 0, i, one->number);
    for (int i = 0; i < n * check_size; i++) one->out[i] = -1;
    switch (one->kind) {
    case 0:
        if (me == one->root) memcpy(one->out, one->in, sizeof(int) * (size_t)n);
        CHECK_OK(MPI_Ibcast(one->out, n, MPI_INT, one->root, comm, request));
        break;
    case 1: CHECK_OK(MPI_Iallreduce(one->in, one->out, n, MPI_INT, MPI_SUM, comm, request)); break;
    case 2: CHECK_OK(MPI_Ialltoall(one->in, n, MPI_INT, one->out, n, MPI_INT, comm, request)); break;
    case 3: CHECK_OK(MPI_Iallgather(one->in, n, MPI_INT, one->out, n, MPI_INT, comm, request)); break;
    default: CHECK_OK(MPI_Ireduce(one->in, one->out, n, MPI_INT, MPI_SUM, one->root, comm, request));
    }
}

static void check(const struct under_way *one)
{
    int n = one->count, me = check_rank, wrong = 0;
    for (int from = 0; from < check_size; from++)
        for (int i = 0; i < n; i++) {
            int sum = 0;
            for (int member = 0; member < check_size; member++) sum += value(member, 0, i, one->number);
            switch (one->kind) {
            case 0: wrong += from == 0 && one->out[i] != value(one->root, 0, i, one->number); break;
            case 1: wrong += from == 0 && one->out[i] != sum; break;
            case 2: wrong += one->out[from * n + i] != value(from, me, i, one->number); break;
            case 3: wrong += one->out[from * n + i] != value(from, 0, i, one->number); break;
            default: wrong += from == 0 && me == one->root && one->out[i] != sum;
            }
        }
    if (wrong) CHECK_FAIL("kind %d, %d ints, root %d, number %d: %d wrong", one->kind, n, one->root, one->number, wrong);
}

int main(int argc, char **argv)
{
    struct under_way all[UNDER_WAY];
    MPI_Request requests[UNDER_WAY];
    unsigned state = 12345, own;
    check_start(&argc, &argv);
    own = (unsigned)check_rank + 77;
    for (int k = 0; k < UNDER_WAY; k++) {
        all[k].in = malloc(sizeof(int) * MOST * 2);
        all[k].out = malloc(sizeof(int) * MOST * 2);
    }
    for (int number = 0; number < 24; number++) {
        static MPI_Comm comm;
        if (number % 8 == 0) {
            CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
            /* So that long nonblocking ones come before, or after, the communicator knows its members. */
            for (int i = 0; i < number / 8; i++) CHECK_OK(MPI_Barrier(comm));
        }
        for (int k = 0; k < UNDER_WAY; k++) {
            state = state * 1103515245u + 12345u;
            all[k].kind = (int)(state >> 16) % 5;
            state = state * 1103515245u + 12345u;
            all[k].count = counts[(state >> 16) % COUNTS];
            all[k].root = (number + k) % check_size;
            all[k].number = number * 10 + k;
            start(&all[k], comm, &requests[k]);
            if (k == 3 && number % 3 == 1) {
                int sum, one = 1;
                CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
                CHECK_INT(sum, check_size);
            }
        }
        for (int left = UNDER_WAY; left > 0; left--) {
            int which;
            own = own * 1103515245u + 12345u;
            for (which = (int)(own >> 16) % UNDER_WAY; requests[which] == MPI_REQUEST_NULL; which = (which + 1) % UNDER_WAY) {}
            CHECK_OK(MPI_Wait(&requests[which], MPI_STATUS_IGNORE));
            check(&all[which]);
        }
        if (number % 8 == 7) CHECK_OK(MPI_Comm_free(&comm));
    }
    for (int k = 0; k < UNDER_WAY; k++) free(all[k].in), free(all[k].out);
    return check_end();
}
