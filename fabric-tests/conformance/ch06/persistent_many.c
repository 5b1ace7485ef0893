/* Many persistent collectives of one communicator alive at once, short and long ones, more than an implementation may have room for apart; made,
 * started in another order at each rank, and freed in another order at each rank while others are under way; a fast root that
 * starts again before the others have completed; what is freed and made anew works like the first.
 *
 * Covers: 6.13
 * Ranks: 2 3 4
 * Timeout: 180
 */
#include "check.h"
#include <stdlib.h>

enum { MANY = 150, LONG = 3000, TURNS = 3 };

static int *in[MANY], *out[MANY];
static MPI_Request request[MANY];

static int is_bcast(int i) { return i % 15 == 1; }
static int length(int i) { return i % 3 == 0 ? 1 + i % 20 : LONG; }
static int root(int i) { return i % check_size; }

static void make(int i, MPI_Comm comm)
{
    if (is_bcast(i))
        CHECK_OK(MPI_Bcast_init(in[i], length(i), MPI_INT, root(i), comm, MPI_INFO_NULL, &request[i]));
    else
        CHECK_OK(MPI_Allreduce_init(in[i], out[i], length(i), MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request[i]));
}

static void fill_in(int i, int turn)
{
    for (int k = 0; k < length(i); k++) {
        in[i][k] = is_bcast(i) && check_rank != root(i) ? -1 : i * 1000 + turn * 100 + k + (is_bcast(i) ? 0 : check_rank);
        out[i][k] = -1;
    }
}

static void look(int i, int turn)
{
    int wrong = 0, ranks = check_size * (check_size - 1) / 2;
    for (int k = 0; k < length(i); k++) {
        int base = i * 1000 + turn * 100 + k;
        wrong += is_bcast(i) ? in[i][k] != base : out[i][k] != check_size * base + ranks;
    }
    CHECK_INT(wrong, 0);
}

/* The requests in an order of the rank's own. */
static int nth(int n, int turn)
{
    static const int steps[] = {1, 7, 11, 13, 149};
    return (n * steps[(check_rank + turn) % 5] + turn * 31) % MANY;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    for (int i = 0; i < MANY; i++) {
        in[i] = malloc(LONG * sizeof(int)), out[i] = malloc(LONG * sizeof(int));
        make(i, comm);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int n = 0; n < MANY; n++) {
            fill_in(nth(n, turn), turn);
            CHECK_OK(MPI_Start(&request[nth(n, turn)]));
        }
        /* A fifth is freed, and made anew once all have freed it, while the others are under way. */
        for (int n = 0; n < MANY; n++) {
            int i = nth(n, turn + 1);
            if (i % 5 != turn) continue;
            CHECK_OK(MPI_Wait(&request[i], MPI_STATUS_IGNORE));
            look(i, turn);
            CHECK_OK(MPI_Request_free(&request[i]));
        }
        for (int i = 0; i < MANY; i++)
            if (i % 5 == turn) {
                make(i, comm);
                fill_in(i, turn);
                CHECK_OK(MPI_Start(&request[i]));
            }
        for (int n = 0; n < MANY; n++) {
            int i = nth(n, turn + 2), done = 0;
            while (n % 2 && !done) CHECK_OK(MPI_Test(&request[i], &done, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Wait(&request[i], MPI_STATUS_IGNORE));
            look(i, turn);
        }
    }
    /* The root waits for nobody. */
    for (int turn = 0; turn < 100; turn++) {
        int i = 1;
        fill_in(i, turn);
        CHECK_OK(MPI_Start(&request[i]));
        if (turn % 10 == 3 && check_rank != root(i)) MPI_Iprobe(0, 0, comm, &(int){0}, MPI_STATUS_IGNORE);
        CHECK_OK(MPI_Wait(&request[i], MPI_STATUS_IGNORE));
        look(i, turn);
    }
    CHECK_OK(MPI_Comm_free(&comm));
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(MPI_Request_free(&request[i]));
        free(in[i]), free(out[i]);
    }
    return check_end();
}
