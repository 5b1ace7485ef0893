/* MPI_Request_get_status and its any, some and all forms with one thread: get_status.h.
 *
 * Covers: 3.7.6, 2.9
 * Ranks: 2
 */
#include "check.h"
#include "ch03/get_status.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    get_status_forms(MPI_COMM_WORLD);
    return check_end();
}
