/* Statuses made by the program: elements, cancelled, source, tag and error set and read back.
 *
 * Covers: 13.3, 3.2.5, 5.1.11
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Status status;
    int count = -1, flag = -1, value = -1;
    MPI_Count large = -1;
    memset(&status, 0, sizeof status);
    CHECK_OK(MPI_Status_set_source(&status, 3));
    CHECK_OK(MPI_Status_set_tag(&status, 44));
    CHECK_OK(MPI_Status_set_error(&status, MPI_ERR_TRUNCATE));
    CHECK_INT(status.MPI_SOURCE, 3);
    CHECK_INT(status.MPI_TAG, 44);
    CHECK_INT(status.MPI_ERROR, MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Status_get_source(&status, &value));
    CHECK_INT(value, 3);
    CHECK_OK(MPI_Status_get_tag(&status, &value));
    CHECK_INT(value, 44);
    CHECK_OK(MPI_Status_get_error(&status, &value));
    CHECK_INT(value, MPI_ERR_TRUNCATE);
    CHECK_OK(MPI_Status_set_elements(&status, MPI_DOUBLE, 7));
    CHECK_OK(MPI_Get_elements(&status, MPI_DOUBLE, &count));
    CHECK_INT(count, 7);
    CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK_INT(count, 7);
    CHECK_OK(MPI_Status_set_cancelled(&status, 1));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    CHECK_OK(MPI_Status_set_cancelled(&status, 0));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_INT(flag, 0);
    CHECK_OK(MPI_Status_set_elements_c(&status, MPI_BYTE, (MPI_Count)1 << 40));
    CHECK_OK(MPI_Get_elements_c(&status, MPI_BYTE, &large));
    CHECK_INT(large, (MPI_Count)1 << 40);
    CHECK_OK(MPI_Get_elements(&status, MPI_BYTE, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_INT(flag, 0);
    return check_end();
}
