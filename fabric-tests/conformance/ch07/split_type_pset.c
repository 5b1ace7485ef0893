/* MPI_COMM_TYPE_RESOURCE_GUIDED with mpi_pset_name: on a communicator from a session the members of the process set, also on a
 * communicator derived from that one; MPI_COMM_NULL for a name nobody knows and for MPI_COMM_WORLD; both keys at once are erroneous.
 * (MPICH 5.0.2 and Open MPI 5.0.11 do not know the type or the key.)
 *
 * Covers: 7.4.2, 11.3.2
 * Ranks: 1 2 4
 */
#include "check.h"

static MPI_Comm by_set(MPI_Comm comm, const char *name)
{
    MPI_Info info;
    MPI_Comm part;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "mpi_pset_name", name));
    CHECK_OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_RESOURCE_GUIDED, -check_rank, info, &part));
    CHECK_OK(MPI_Info_free(&info));
    return part;
}

static void check_size_and_rank(MPI_Comm part, int wanted_size, int wanted_rank)
{
    int size, rank;
    CHECK(part != MPI_COMM_NULL);
    if (part == MPI_COMM_NULL) return;
    CHECK_OK(MPI_Comm_size(part, &size));
    CHECK_OK(MPI_Comm_rank(part, &rank));
    CHECK_INT(size, wanted_size);
    CHECK_INT(rank, wanted_rank);
    CHECK_OK(MPI_Comm_free(&part));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK(by_set(MPI_COMM_WORLD, "mpi://WORLD") == MPI_COMM_NULL);
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm, copy;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    CHECK_OK(MPI_Comm_create_from_group(group, "split_type_pset", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    check_size_and_rank(by_set(comm, "mpi://WORLD"), check_size, check_size - 1 - check_rank);
    check_size_and_rank(by_set(comm, "mpi://SELF"), 1, 0);
    CHECK(by_set(comm, "app://nobody knows it") == MPI_COMM_NULL);
    CHECK_OK(MPI_Comm_dup(comm, &copy));
    check_size_and_rank(by_set(copy, "mpi://SELF"), 1, 0);
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Comm_split(comm, 0, check_rank, &copy));
    check_size_and_rank(by_set(copy, "mpi://WORLD"), check_size, check_size - 1 - check_rank);
    CHECK_OK(MPI_Comm_free(&copy));

    MPI_Info both;
    CHECK_OK(MPI_Info_create(&both));
    CHECK_OK(MPI_Info_set(both, "mpi_pset_name", "mpi://WORLD"));
    CHECK_OK(MPI_Info_set(both, "mpi_hw_resource_type", "mpi_shared_memory"));
    CHECK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_RESOURCE_GUIDED, 0, both, &copy) != MPI_SUCCESS);
    CHECK_OK(MPI_Info_free(&both));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
