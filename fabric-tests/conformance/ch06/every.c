/* Every collective of the chapter on an intracommunicator, blocking and nonblocking, with int and MPI_Count arguments, every root, in
 * place and not, with an operation that commutes and one that does not, from no data to some KiB; user operations of both function
 * forms in calls of both forms.
 *
 * Covers: 6.3, 6.4, 6.5, 6.6, 6.7, 6.8, 6.9.1, 6.9.5, 6.9.6, 6.10, 6.11, 6.12
 * Ranks: 1 2 3 4 5 6 7 8
 * Timeout: 180
 */
#include "every.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    const int counts[] = {0, 1, 5, 300};
    long seed = 0;
    for (int c = 0; c < 4; c++)
        for (int form = BLOCKING; form <= NONBLOCKING; form++)
            for (int kind = 0; kind < KINDS; kind++)
                for (int root = 0; root < (is_rooted((enum kind)kind) ? check_size : 1); root++)
                    for (int in_place = 0; in_place < (kind == BARRIER || kind == BCAST ? 1 : 2); in_place++)
                        for (int large = 0; large < (kind == BARRIER ? 1 : 2); large++)
                            for (int ordered = 0; ordered < (reduces((enum kind)kind) ? 2 : 1); ordered++) {
                                struct work w = work_of((enum kind)kind, (enum form)form, MPI_COMM_WORLD, counts[c]);
                                w.root = root, w.in_place = in_place, w.large = large, w.ordered = ordered;
                                work_fill(&w, ++seed);
                                work_begin(&w);
                                work_end(&w);
                                work_check(&w);
                                work_free(&w);
                            }
    every_end();
    return check_end();
}
