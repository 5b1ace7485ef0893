/* 70,000 communicators made and freed in turn, 40,000 alive at once, in several ways of making them; each a channel of its own.
 *
 * Covers: 7.2.2, 7.4.2, 7.4.3 [MPICH 5 and Open MPI 5 have far fewer: they fail at some thousands alive]
 * Ranks: 2 4
 * Timeout: 600
 */
#include "check.h"

#define IN_TURN 70000
#define IN_TURN_WITH_MANY_RANKS 15000
#define ALIVE 40000

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, next = (me + 1) % n, before = (me + n - 1) % n;
    MPI_Comm comm;
    MPI_Group world;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    for (int i = 0; i < (n <= 2 ? IN_TURN : IN_TURN_WITH_MANY_RANKS); i++) {
        switch (i % 16) {
        case 3: CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, me % 2, -me, &comm)); break;
        case 7: CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, world, &comm)); break;
        case 11: CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, i, &comm)); break;
        case 15: {
            MPI_Request request;
            CHECK_OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            break;
        }
        default: CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        }
        CHECK_OK(MPI_Comm_free(&comm));
    }

    MPI_Comm *alive = check_alloc(sizeof *alive * ALIVE);
    for (int i = 0; i < ALIVE; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &alive[i]));
    /* One message on each of a thousand, all before the first is received: none comes out elsewhere. */
    MPI_Request *requests = check_alloc(sizeof *requests * 1000);
    int *out = check_alloc(sizeof *out * 1000);
    for (int i = 0; i < 1000; i++) {
        out[i] = i;
        CHECK_OK(MPI_Isend(&out[i], 1, MPI_INT, next, 1, alive[i * 40 + i % 40], &requests[i]));
    }
    for (int i = 999; i >= 0; i--) {
        int got = -1;
        CHECK_OK(MPI_Recv(&got, 1, MPI_INT, before, 1, alive[i * 40 + i % 40], MPI_STATUS_IGNORE));
        CHECK_INT(got, i);
    }
    CHECK_OK(MPI_Waitall(1000, requests, MPI_STATUSES_IGNORE));
    /* Freed and made again in the middle. */
    for (int i = 0; i < ALIVE; i += 100) CHECK_OK(MPI_Comm_free(&alive[i]));
    for (int i = 0; i < ALIVE; i += 100) CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &alive[i]));
    for (int i = 0; i < ALIVE; i += 997) {
        int sum = 0;
        CHECK_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, alive[i]));
        CHECK_INT(sum, i * n);
    }
    for (int i = 0; i < ALIVE; i++) CHECK_OK(MPI_Comm_free(&alive[i]));
    CHECK_OK(MPI_Group_free(&world));
    free(alive);
    free(requests);
    free(out);
    return check_end();
}
