/* MPI_Comm_split_type: shared memory and the reserved value that means the same; MPI_UNDEFINED; keys; the guided types without info,
 * without the key and with values nobody knows give MPI_COMM_NULL; names that MPI_Get_hw_resource_info gives are accepted by both guided
 * types (examples 7.3 and 7.4); the groups are disjoint and ordered; a process set needs a communicator from a session.
 *
 * Covers: 7.4.2, 9.1.2
 * Ranks: 1 2 4 7
 * Timeout: 120
 */
#include "check.h"

static MPI_Comm split(int type, int key, const char *name, const char *value)
{
    MPI_Comm part;
    MPI_Info info = MPI_INFO_NULL;
    if (name != NULL) {
        CHECK_OK(MPI_Info_create(&info));
        CHECK_OK(MPI_Info_set(info, name, value));
    }
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, type, key, info, &part));
    if (info != MPI_INFO_NULL) CHECK_OK(MPI_Info_free(&info));
    return part;
}

static void check_null(MPI_Comm part)
{
    CHECK(part == MPI_COMM_NULL);
    if (part != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&part));
}

/* Members by descending old rank, because the key was minus the rank; nobody else has a communicator with one of them. */
static void check_part(MPI_Comm part)
{
    int size = 0, rank, seen[16] = {0}, all[16];
    if (part != MPI_COMM_NULL) {
        MPI_Group mine, world;
        int ranks[16], olds[16];
        CHECK_OK(MPI_Comm_size(part, &size));
        CHECK_OK(MPI_Comm_rank(part, &rank));
        CHECK_OK(MPI_Comm_group(part, &mine));
        CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
        for (int i = 0; i < size; i++) ranks[i] = i;
        CHECK_OK(MPI_Group_translate_ranks(mine, size, ranks, world, olds));
        for (int i = 0; i + 1 < size; i++) CHECK(olds[i] > olds[i + 1]);
        CHECK_INT(olds[rank], check_rank);
        if (rank == 0)
            for (int i = 0; i < size; i++) seen[olds[i]]++;
        CHECK_OK(MPI_Group_free(&mine));
        CHECK_OK(MPI_Group_free(&world));
        CHECK_OK(MPI_Barrier(part));
        CHECK_OK(MPI_Comm_free(&part));
    }
    CHECK_OK(MPI_Allreduce(seen, all, 16, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < 16; i++) CHECK(all[i] <= 1);
    CHECK_INT(all[check_rank], size > 0);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int minus = -check_rank, result, keys, flag;
    MPI_Comm shared = split(MPI_COMM_TYPE_SHARED, 0, NULL, NULL);
    MPI_Comm same = split(MPI_COMM_TYPE_HW_GUIDED, 0, "mpi_hw_resource_type", "mpi_shared_memory");
    CHECK_OK(MPI_Comm_compare(shared, same, &result));
    CHECK_INT(result, MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_free(&same));
    same = split(MPI_COMM_TYPE_RESOURCE_GUIDED, 0, "mpi_hw_resource_type", "mpi_shared_memory");
    CHECK_OK(MPI_Comm_compare(shared, same, &result));
    CHECK_INT(result, MPI_CONGRUENT);
    CHECK_OK(MPI_Comm_free(&same));
    CHECK_OK(MPI_Comm_free(&shared));
    check_part(split(MPI_COMM_TYPE_SHARED, minus, NULL, NULL));
    MPI_Comm odd = split(check_rank % 2 ? MPI_UNDEFINED : MPI_COMM_TYPE_SHARED, 0, NULL, NULL);
    CHECK((odd == MPI_COMM_NULL) == (check_rank % 2 == 1));
    if (odd != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&odd));
    check_null(split(MPI_UNDEFINED, 0, NULL, NULL));

    static const int guided[] = {MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED};
    for (int i = 0; i < 2; i++) {
        check_null(split(guided[i], 0, NULL, NULL));
        check_null(split(guided[i], 0, "some_other_key", "true"));
        check_null(split(guided[i], 0, "mpi_hw_resource_type", "no such resource"));
    }

    /* Every name of the machine's parts is accepted. */
    MPI_Info hardware;
    CHECK_OK(MPI_Get_hw_resource_info(&hardware));
    CHECK_OK(MPI_Info_get_nkeys(hardware, &keys));
    for (int i = 0; i < keys; i++) {
        char key[MPI_MAX_INFO_KEY], value[16] = "";
        int length = sizeof value;
        CHECK_OK(MPI_Info_get_nthkey(hardware, i, key));
        CHECK(strstr(key, "://") != NULL);
        CHECK(strncmp(key, "mpi://", 6) != 0);
        CHECK_OK(MPI_Info_get_string(hardware, key, &length, value, &flag));
        CHECK(flag);
        int restricted = strcmp(value, "true") == 0;
        CHECK(restricted || strcmp(value, "false") == 0);
        for (int type = 0; type < 2; type++) {
            MPI_Comm part = split(guided[type], minus, "mpi_hw_resource_type", key);
            if (part != MPI_COMM_NULL) CHECK(restricted);
            check_part(part);
        }
    }
    CHECK_OK(MPI_Info_free(&hardware));
    return check_end();
}
