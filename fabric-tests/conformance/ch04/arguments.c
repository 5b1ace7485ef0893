/* Wrong arguments are refused with the right class, and have no effect.
 *
 * Covers: 4.2.1, 9.4
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int data[4] = {0};
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK_CLASS(MPI_Psend_init(data, 1, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Psend_init(data, 1, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Psend_init(data, 1, 1, MPI_INT, 0, -5, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Psend_init(data, 1, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Psend_init(data, 1, 1, MPI_INT, 0, 0, MPI_COMM_NULL, MPI_INFO_NULL, &request), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Precv_init(data, 1, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Precv_init(data, 1, 1, MPI_INT, check_size, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request), MPI_ERR_RANK);
    CHECK(request == MPI_REQUEST_NULL);
    return check_end();
}
