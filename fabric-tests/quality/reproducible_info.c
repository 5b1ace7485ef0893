/* The info key weft_reproducible of a communicator, set after it was used: MPI_Reduce to every root, MPI_Allreduce, MPI_Reduce_scatter_block and their other
 * forms give the same bits for the same operands, also with ranks placed in another order underneath and with other lengths.
 *
 * Covers: 6.9.1
 * Ranks: 2 3 5 8
 * Timeout: 60
 */
#include "reproducible.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comm;
    MPI_Info info, told;
    char value[16];
    int flag;
    double one = 1, sum;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, comm));
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "weft_reproducible", "true"));
    CHECK_OK(MPI_Comm_set_info(comm, info));
    CHECK_OK(MPI_Comm_get_info(comm, &told));
    int length = sizeof value;
    CHECK_OK(MPI_Info_get_string(told, "weft_reproducible", &length, value, &flag));
    CHECK(flag && strcmp(value, "true") == 0);
    CHECK_OK(MPI_Info_free(&told));
    CHECK_OK(MPI_Info_free(&info));
    check_on(comm);
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
