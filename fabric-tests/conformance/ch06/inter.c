/* Every collective on intercommunicators of groups of several shapes, in all three forms, with int and MPI_Count arguments: what one
 * group gives the other gets, with every root of both groups (MPI_ROOT, MPI_PROC_NULL, its rank), operations that do not commute,
 * several at once; the group of the root is left alone; scans do not exist there, nor does MPI_IN_PLACE (its class is
 * the implementation's choice). (MPICH 5.0: a nonblocking or persistent broadcast does not arrive when the root is not rank 0 of its group.)
 *
 * Covers: 6.2.2, 6.2.3, 6.3, 6.4, 6.5, 6.6, 6.7, 6.8, 6.9.1, 6.9.6, 6.10, 6.12, 6.13
 * Ranks: 2 3 4 5 6 7 8
 * Timeout: 240
 */
#include "every.h"

/* Groups of the first `first` processes and of the rest, in reverse order when asked for. */
static MPI_Comm two_groups(int first, int reversed)
{
    MPI_Comm local, both;
    int side = check_rank >= first;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, reversed ? -check_rank : check_rank, &local));
    int remote_leader = side == 0 ? (reversed ? check_size - 1 : first) : (reversed ? first - 1 : 0);
    CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, remote_leader, 7, &both));
    CHECK_OK(MPI_Comm_free(&local));
    CHECK_OK(MPI_Comm_set_errhandler(both, MPI_ERRORS_RETURN));
    return both;
}

static void once(struct work *w, int seed)
{
    if (w->form == PERSISTENT) work_init(w);
    for (int run = 0; run < (w->form == PERSISTENT ? 2 : 1); run++) {
        work_fill(w, seed + run);
        work_begin(w);
        work_end(w);
        work_check(w);
    }
    work_free(w);
}

static void every(MPI_Comm comm, int side, int count)
{
    int sizes[2], seed = 0;
    CHECK_OK(MPI_Comm_size(comm, &sizes[side]));
    CHECK_OK(MPI_Comm_remote_size(comm, &sizes[!side]));
    for (int form = 0; form < FORMS; form++)
        for (int kind = 0; kind < SCAN; kind++)
            for (int root_side = 0; root_side < (is_rooted((enum kind)kind) ? 2 : 1); root_side++)
                for (int root = 0; root < (is_rooted((enum kind)kind) ? sizes[root_side] : 1); root++)
                    for (int large = 0; large < (kind == BARRIER ? 1 : 2); large++)
                        for (int ordered = 0; ordered < (reduces((enum kind)kind) ? 2 : 1); ordered++) {
                            struct work w = work_of((enum kind)kind, (enum form)form, comm, count);
                            w.side = side, w.root_side = root_side, w.root = root, w.large = large, w.ordered = ordered;
                            once(&w, seed += 10);
                        }
}

/* All at once, completed in reverse. */
static void together(MPI_Comm comm, int side, int count)
{
    struct work all[SCAN];
    for (int kind = 0; kind < SCAN; kind++) {
        all[kind] = work_of((enum kind)kind, NONBLOCKING, comm, count);
        all[kind].side = side, all[kind].root_side = kind % 2;
        work_fill(&all[kind], kind);
        work_begin(&all[kind]);
    }
    for (int kind = SCAN - 1; kind >= 0; kind--) {
        work_end(&all[kind]);
        work_check(&all[kind]);
        work_free(&all[kind]);
    }
}

/* One direction gives nothing; the other one does. */
static void one_way(MPI_Comm comm, int side)
{
    int others, own[2] = {check_rank, -check_rank}, got[2 * MOST];
    CHECK_OK(MPI_Comm_remote_size(comm, &others));
    for (int i = 0; i < 2 * MOST; i++) got[i] = NOTHING;
    int gives = side == 0;
    CHECK_OK(MPI_Allgather(own, gives ? 2 : 0, MPI_INT, got, gives ? 0 : 2, MPI_INT, comm));
    for (int i = 0; i < others; i++)
        if (gives) CHECK_INT(got[i], NOTHING);
        else CHECK_INT(got[2 * i], -got[2 * i + 1]);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    for (int shape = 0; shape < 3; shape++) {
        int first = shape == 0 ? check_size / 2 : shape == 1 ? 1 : check_size - 1, side = check_rank >= first;
        MPI_Comm comm = two_groups(first, shape == 0);
        every(comm, side, 3);
        if (shape == 0) every(comm, side, 0), every(comm, side, 400);
        together(comm, side, 5);
        one_way(comm, side);
        int value = 1, sum = 0;
        CHECK_CLASS(MPI_Scan(&value, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_COMM);
        CHECK_CLASS(MPI_Exscan(&value, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_ERR_COMM);
        CHECK_CLASS(MPI_Bcast(&value, 1, MPI_INT, -17, comm), MPI_ERR_ROOT);
        CHECK_CLASS(MPI_Bcast(&value, 1, MPI_INT, check_size, comm), MPI_ERR_ROOT);
        CHECK(MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, comm) != MPI_SUCCESS);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    every_end();
    return check_end();
}
