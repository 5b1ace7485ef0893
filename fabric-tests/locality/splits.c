/* Prints for each rank the kinds of parts it is restricted to, and the groups that unguided splits put it into, one after another. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static char line[1024];

static void members(MPI_Comm comm)
{
    MPI_Group mine, world;
    int size, ranks[64], olds[64];
    MPI_Comm_size(comm, &size);
    MPI_Comm_group(comm, &mine);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < size; i++) ranks[i] = i;
    MPI_Group_translate_ranks(mine, size, ranks, world, olds);
    for (int i = 0; i < size; i++) sprintf(line + strlen(line), "%s%d", i ? "+" : "=", olds[i]);
    MPI_Group_free(&mine);
    MPI_Group_free(&world);
}

static void kind(MPI_Info info)
{
    char value[128] = "?";
    int length = sizeof value, flag;
    MPI_Info_get_string(info, "mpi_hw_resource_type", &length, value, &flag);
    sprintf(line + strlen(line), " %s", strstr(value, "://") ? strstr(value, "://") + 3 : value);
}

int main(int argc, char **argv)
{
    int rank, size, keys;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    sprintf(line, "rank %d in one", rank);
    MPI_Info hardware;
    MPI_Get_hw_resource_info(&hardware);
    MPI_Info_get_nkeys(hardware, &keys);
    for (int i = 0; i < keys; i++) {
        char key[MPI_MAX_INFO_KEY], value[8] = "";
        int length = sizeof value, flag;
        MPI_Info_get_nthkey(hardware, i, key);
        MPI_Info_get_string(hardware, key, &length, value, &flag);
        if (strcmp(value, "true") == 0) sprintf(line + strlen(line), " %s", strstr(key, "://") + 3);
    }
    MPI_Info_free(&hardware);
    strcat(line, "; unguided");
    MPI_Comm comm;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (;;) {
        MPI_Comm part;
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Comm_split_type(comm, MPI_COMM_TYPE_HW_UNGUIDED, 0, info, &part);
        MPI_Comm_free(&comm);
        if (part != MPI_COMM_NULL) {
            kind(info);
            members(part);
        }
        MPI_Info_free(&info);
        if (part == MPI_COMM_NULL) break;
        comm = part;
    }
    if (argc > 1) {
        MPI_Info info;
        MPI_Info_create(&info);
        MPI_Info_set(info, "mpi_hw_resource_type", argv[1]);
        MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_HW_GUIDED, 0, info, &comm);
        MPI_Info_free(&info);
        sprintf(line + strlen(line), "; %s", argv[1]);
        if (comm == MPI_COMM_NULL) {
            strcat(line, " none");
        } else {
            members(comm);
            MPI_Comm_free(&comm);
        }
    }
    static char all[64][1024];
    MPI_Gather(line, sizeof line, MPI_CHAR, all, sizeof line, MPI_CHAR, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++) puts(all[i]);
    MPI_Finalize();
    return 0;
}
