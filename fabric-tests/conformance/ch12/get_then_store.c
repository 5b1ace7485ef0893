/* Large gets are over at the target, not only at the origin, when the call that ends the epoch says so: what is stored there
 * afterwards is not seen by them. After MPI_Win_wait and MPI_Win_test by the target itself; after MPI_Win_unlock by whoever has
 * the exclusive lock next.
 *
 * Covers: 12.5.2, 12.5.3, 12.3.2
 * Ranks: 2 3 4
 */
#include "check.h"

#define N 100000

static int in[N];
static MPI_Win win;

static void set_all(int *memory, int n, int value)
{
    for (int i = 0; i < n; i++) memory[i] = value;
}

static void all_are(const int *got, int n, int stride, int wanted, const char *what)
{
    for (int i = 0; i < n; i += stride)
        if (got[i] != wanted) {
            CHECK_FAIL("%s: element %d is %d, wanted %d", what, i, got[i], wanted);
            return;
        }
}

/* Everybody else gets from rank 0, which stores as soon as the exposure epoch is over. */
static void exposed(int *memory, int n, MPI_Datatype type, int count, int stride, int tests)
{
    MPI_Group all, owner, others;
    int zero = 0;
    CHECK_OK(MPI_Win_get_group(win, &all));
    CHECK_OK(MPI_Group_incl(all, 1, &zero, &owner));
    CHECK_OK(MPI_Group_excl(all, 1, &zero, &others));
    for (int round = 1; round <= 20; round++) {
        if (check_rank == 0) {
            set_all(memory, n, round);
            CHECK_OK(MPI_Win_post(others, 0, win));
            int over = !tests;
            while (!over) CHECK_OK(MPI_Win_test(win, &over));
            if (!tests) CHECK_OK(MPI_Win_wait(win));
            set_all(memory, n, -round);
        } else {
            set_all(in, n, 0);
            CHECK_OK(MPI_Win_start(owner, 0, win));
            CHECK_OK(MPI_Get(in, count, type, 0, 0, count, type, win));
            CHECK_OK(MPI_Win_complete(win));
            all_are(in, n, stride, round, tests ? "MPI_Win_test" : "MPI_Win_wait");
        }
    }
    CHECK_OK(MPI_Group_free(&all));
    CHECK_OK(MPI_Group_free(&owner));
    CHECK_OK(MPI_Group_free(&others));
}

/* Everybody replaces the whole content under an exclusive lock and reads it under a shared one: nobody ever sees half of it. */
static void locked(void)
{
    static int out[N];
    for (int round = 1; round <= 20; round++) {
        set_all(out, N, 100 * round + check_rank);
        CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        CHECK_OK(MPI_Put(out, N, MPI_INT, 0, 0, N, MPI_INT, win));
        CHECK_OK(MPI_Win_unlock(0, win));
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        CHECK_OK(MPI_Get(in, N, MPI_INT, 0, 0, N, MPI_INT, win));
        CHECK_OK(MPI_Win_unlock(0, win));
        all_are(in, N, 1, in[0], "MPI_LOCK_SHARED");
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    /* Memory of the program's own, which no other process can reach by itself. */
    int *memory = malloc(sizeof(int) * N);
    set_all(memory, N, 0);
    CHECK_OK(MPI_Win_create(memory, sizeof(int) * N, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    MPI_Datatype gaps;
    CHECK_OK(MPI_Type_vector(N / 4, 1, 4, MPI_INT, &gaps));
    CHECK_OK(MPI_Type_commit(&gaps));
    for (int tests = 0; tests < 2; tests++) {
        exposed(memory, N, MPI_INT, N, 1, tests);
        exposed(memory, N, gaps, 1, 4, tests);
        exposed(memory, 3000, MPI_INT, 3000, 1, tests);
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    locked();
    CHECK_OK(MPI_Type_free(&gaps));
    CHECK_OK(MPI_Win_free(&win));
    free(memory);
    return check_end();
}
