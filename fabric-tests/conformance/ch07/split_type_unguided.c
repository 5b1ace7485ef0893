/* Example 7.5: splitting by MPI_COMM_TYPE_HW_UNGUIDED again and again ends in MPI_COMM_NULL; each new communicator has a proper subset of the
 * members of the one before, and, where an info object is given, its members are told one kind of hardware.
 *
 * Covers: 7.4.2
 * Ranks: 1 2 4 5
 */
#include "check.h"

#define MAX_NUM_LEVELS 32

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int with_info = 0; with_info < 2; with_info++) {
        MPI_Comm hwcomm[MAX_NUM_LEVELS];
        int rank, level_num = 0, before, after;
        hwcomm[0] = MPI_COMM_WORLD;
        while (hwcomm[level_num] != MPI_COMM_NULL && level_num < MAX_NUM_LEVELS - 1) {
            MPI_Info info = MPI_INFO_NULL;
            if (with_info) CHECK_OK(MPI_Info_create(&info));
            CHECK_OK(MPI_Comm_rank(hwcomm[level_num], &rank));
            CHECK_OK(MPI_Comm_split_type(hwcomm[level_num], MPI_COMM_TYPE_HW_UNGUIDED, rank, info, &hwcomm[level_num + 1]));
            CHECK_OK(MPI_Comm_size(hwcomm[level_num], &before));
            level_num++;
            if (hwcomm[level_num] != MPI_COMM_NULL) {
                CHECK_OK(MPI_Comm_size(hwcomm[level_num], &after));
                CHECK(after < before);
                if (with_info) {
                    char kind[128] = "", first[128] = "";
                    int length = sizeof kind, flag;
                    CHECK_OK(MPI_Info_get_string(info, "mpi_hw_resource_type", &length, kind, &flag));
                    CHECK(flag);
                    memcpy(first, kind, sizeof first);
                    CHECK_OK(MPI_Bcast(first, sizeof first, MPI_CHAR, 0, hwcomm[level_num]));
                    CHECK_STR(kind, first);
                }
            }
            if (with_info) CHECK_OK(MPI_Info_free(&info));
        }
        CHECK(hwcomm[level_num] == MPI_COMM_NULL);
        for (int i = 1; i < level_num; i++) CHECK_OK(MPI_Comm_free(&hwcomm[i]));
    }
    return check_end();
}
