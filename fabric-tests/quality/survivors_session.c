/* A process is killed; the others end the World Model, which says farewell, and begin again with a session: at once, and once more when all
 * have ended. A communicator without the dead can be made of those that said farewell, and works.
 *
 * Covers: 9.3, 11.3, 11.4.2
 * Ranks: 2 3 4
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "killed.h"

static void again(const char *name)
{
    MPI_Session session;
    MPI_Group world, living;
    MPI_Comm comm;
    int first = 0, one = 1, sum = 0, members = check_size - 1;
    int range[1][3] = {{0, check_size - 2, 1}};
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &world));
    CHECK_OK(MPI_Group_range_incl(world, 1, range, &living));
    CHECK_OK(MPI_Comm_create_from_group(living, name, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK_INT(sum, members);
    first = check_rank == 0 ? 7 : -1;
    CHECK_OK(MPI_Bcast(&first, 1, MPI_INT, 0, comm));
    CHECK_INT(first, 7);
    first = -1;
    CHECK_OK(MPI_Sendrecv(&check_rank, 1, MPI_INT, (check_rank + 1) % members, 1, &first, 1, MPI_INT,
                          (check_rank + members - 1) % members, 1, comm, MPI_STATUS_IGNORE));
    CHECK_INT(first, (check_rank + members - 1) % members);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Group_free(&living));
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Session_finalize(&session));
}

int main(int argc, char **argv)
{
    int code = MPI_SUCCESS, one = 1, sum;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    die_among_all(check_size - 1);
    while (code == MPI_SUCCESS) code = MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    MPI_Finalize();
    again("at once");
    sleep(1);
    again("after all have ended");
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
