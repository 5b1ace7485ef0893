/* Beginning a collective returns whatever the others do: rank 0 calls all nonblocking ones, starts all persistent ones, and those of a
 * neighbourhood, while nobody else is in a call of MPI; the others wait outside, for a file, until it says that it has begun them all. So also
 * as the first calls of a communicator.
 *
 * Covers: 2.4.2, 6.12, 6.13, 8.7, 8.8
 * Ranks: 2 3 4
 * Node: one
 * Timeout: 120
 */
#define _GNU_SOURCE
#include "every.h"
#include "ch06/outside.h"

enum { COUNTS = 3 };
static const int counts[COUNTS] = {0, 5, 4000};

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    for (int used = 0; used < 2; used++)
        for (int c = 0; c < COUNTS; c++) {
            struct work all[2][KINDS];
            MPI_Request near[10];
            MPI_Comm comm, ring;
            int one[2] = {check_rank, check_rank}, got[2][2] = {{-1, -1}, {-1, -1}}, again[2][2] = {{-1, -1}, {-1, -1}}, periodic = 1;
            CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
            CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, &periodic, 0, &ring));
            for (int i = 0; used && i < 3; i++) CHECK_OK(MPI_Barrier(comm));
            for (int kind = 0; kind < KINDS; kind++)
                for (int form = 0; form < 2; form++) {
                    all[form][kind] = work_of((enum kind)kind, form ? PERSISTENT : NONBLOCKING, comm, counts[c]);
                    all[form][kind].root = (kind + form) % check_size;
                    work_fill(&all[form][kind], 10 * kind + form);
                    if (form) work_init(&all[form][kind]);
                }
            CHECK_OK(MPI_Neighbor_alltoall_init(one, 1, MPI_INT, again[0], 1, MPI_INT, ring, MPI_INFO_NULL, &near[2]));
            CHECK_OK(MPI_Neighbor_allgather_init(one, 1, MPI_INT, again[1], 1, MPI_INT, ring, MPI_INFO_NULL, &near[3]));
            outside_start("collective_starts_are_local");
            if (check_rank != 0) outside_wait();
            for (int kind = 0; kind < KINDS; kind++)
                for (int form = 0; form < 2; form++) work_begin(&all[form][kind]);
            CHECK_OK(MPI_Ineighbor_alltoall(one, 1, MPI_INT, got[0], 1, MPI_INT, ring, &near[0]));
            CHECK_OK(MPI_Ineighbor_allgather(one, 1, MPI_INT, got[1], 1, MPI_INT, ring, &near[1]));
            CHECK_OK(MPI_Startall(2, near + 2));
            if (check_rank == 0) outside_say();
            for (int kind = KINDS - 1; kind >= 0; kind--)
                for (int form = 0; form < 2; form++) {
                    work_end(&all[form][kind]);
                    work_check(&all[form][kind]);
                    work_free(&all[form][kind]);
                }
            CHECK_OK(MPI_Waitall(4, near, MPI_STATUSES_IGNORE));
            for (int i = 0; i < 2; i++) {
                CHECK_INT(got[i][0], (check_rank + check_size - 1) % check_size);
                CHECK_INT(got[i][1], (check_rank + 1) % check_size);
                CHECK_INT(again[i][0], got[i][0]);
                CHECK_INT(again[i][1], got[i][1]);
                CHECK_OK(MPI_Request_free(&near[2 + i]));
            }
            outside_end();
            CHECK_OK(MPI_Comm_free(&comm));
            CHECK_OK(MPI_Comm_free(&ring));
        }
    every_end();
    return check_end();
}
