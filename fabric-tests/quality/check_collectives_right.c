/* WEFT_CHECK=collectives: what is right stays right, in all forms, in place, many at once, on intra- and intercommunicators.
 *
 * Covers: 6.14, 6.12, 6.13
 * Ranks: 1 2 5
 * Env: WEFT_CHECK=collectives
 * Timeout: 120
 */
#include "../conformance/ch06/every.h"

static void at_once(MPI_Comm comm, int side, int in_place, int large, int form, int kinds)
{
    struct work all[KINDS];
    for (int kind = 0; kind < kinds; kind++) {
        all[kind] = work_of((enum kind)kind, (enum form)form, comm, 3);
        all[kind].side = side, all[kind].root_side = all[kind].inter && kind % 2, all[kind].large = large && kind != BARRIER;
        all[kind].in_place = in_place && kind != BARRIER && kind != BCAST, all[kind].ordered = kind >= REDUCE && kind % 2;
        if (form == PERSISTENT) work_init(&all[kind]);
        work_fill(&all[kind], kind);
        work_begin(&all[kind]);
        if (form == BLOCKING) work_end(&all[kind]), work_check(&all[kind]);
    }
    for (int kind = kinds - 1; kind >= 0; kind--) {
        if (form != BLOCKING) work_end(&all[kind]), work_check(&all[kind]);
        work_free(&all[kind]);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    for (int form = 0; form < FORMS; form++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int large = 0; large < 2; large++) at_once(MPI_COMM_WORLD, 0, in_place, large, form, KINDS);
    if (check_size > 1) {
        MPI_Comm local, both;
        int side = check_rank >= check_size / 2;
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, check_rank, &local));
        CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : check_size / 2, 1, &both));
        for (int form = 0; form < FORMS; form++) at_once(both, side, 0, form % 2, form, SCAN);
        CHECK_OK(MPI_Comm_free(&both));
        CHECK_OK(MPI_Comm_free(&local));
    }
    every_end();
    return check_end();
}
