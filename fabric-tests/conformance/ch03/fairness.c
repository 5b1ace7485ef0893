/* Fairness of the calls that complete some of many, with one thread: fairness.h.
 *
 * Covers: 3.7.5, 3.7.6
 * Ranks: 1 2 3
 * [Open MPI 5.0 starves it in MPI_Waitsome, MPICH 5.0 in MPI_Request_get_status_some: neither makes progress there when something is
 * complete. Section 3.7.5 asks it of both calls, 3.7.6 of the third.]
 */
#include "check.h"
#include "ch03/fairness.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    all_are_served();
    return check_end();
}
