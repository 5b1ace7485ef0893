/* Groups and communicators of different sessions, or of a session and the World Model, in one call that makes something are refused with
 * words that say which is from where.
 *
 * Covers: 11.3
 * Ranks: 1 2
 */
#include "check.h"
#include "told.h"

int main(int argc, char **argv)
{
    MPI_Session first, second;
    MPI_Group one, two, world, made, empty;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &first));
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &second));
    CHECK_OK(MPI_Group_from_session_pset(first, "mpi://WORLD", &one));
    CHECK_OK(MPI_Group_from_session_pset(second, "mpi://WORLD", &two));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    TOLD(MPI_Group_union(one, two, &made), MPI_ERR_GROUP, "the session", "cannot be mixed");
    TOLD(MPI_Group_intersection(world, two, &made), MPI_ERR_GROUP, "the World Model", "the session");
    MPI_Comm comm;
    TOLD(MPI_Comm_create(MPI_COMM_WORLD, one, &comm), MPI_ERR_GROUP, "the World Model", "the session");
    TOLD(MPI_Comm_create_group(MPI_COMM_WORLD, two, 1, &comm), MPI_ERR_GROUP, "cannot be mixed");
    CHECK_OK(MPI_Comm_create_from_group(one, "unmixed", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Comm_disconnect(&comm));
    CHECK_OK(MPI_Group_difference(one, one, &empty));
    CHECK(empty == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_union(empty, two, &made));
    CHECK_OK(MPI_Group_free(&made));
    CHECK_OK(MPI_Group_free(&one));
    CHECK_OK(MPI_Group_free(&two));
    CHECK_OK(MPI_Group_free(&world));
    CHECK_OK(MPI_Session_finalize(&first));
    CHECK_OK(MPI_Session_finalize(&second));
    return check_end();
}
