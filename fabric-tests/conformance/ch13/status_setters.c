/* Statuses made by the program: elements, cancelled, source, tag and error set and read back.
 *
 * Covers: 13.3, 3.2.5, 5.1.11
 * Ranks: 1
 * [MPICH 4.3 loses the upper bits of a count whose bytes have more than 63.]
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

    /* Any count that the type of counts holds, of elements of any size, also where the last element of a datatype is not whole. */
    static const MPI_Count counts[] = {0, 1, 5, ((MPI_Count)1 << 61) + 1, (MPI_Count)1 << 62, INT64_MAX - 1, INT64_MAX};
    MPI_Datatype types[4] = {MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX, MPI_CHAR, MPI_DATATYPE_NULL}, parts[2] = {MPI_INT, MPI_DOUBLE};
    int lengths[2] = {2, 1};
    MPI_Aint places[2] = {0, 8};
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, parts, &types[3]));
    CHECK_OK(MPI_Type_commit(&types[3]));
    for (int type = 0; type < 4; type++)
        for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
            /* Three basic elements make one of the last type. */
            MPI_Count each = type == 3 ? 3 : 1, whole = counts[i] % each ? MPI_UNDEFINED : counts[i] / each;
            int cancelled = (int)i & 1;
            if (cancelled) CHECK_OK(MPI_Status_set_cancelled(&status, 1));
            CHECK_OK(MPI_Status_set_elements_c(&status, types[type], counts[i]));
            if (!cancelled) CHECK_OK(MPI_Status_set_cancelled(&status, 0));
            CHECK_OK(MPI_Get_elements_c(&status, types[type], &large));
            CHECK_INT(large, counts[i]);
            CHECK_OK(MPI_Get_count_c(&status, types[type], &large));
            CHECK_INT(large, whole);
            CHECK_OK(MPI_Test_cancelled(&status, &flag));
            CHECK_INT(!!flag, cancelled);
        }
    CHECK_OK(MPI_Type_free(&types[3]));
    return check_end();
}
