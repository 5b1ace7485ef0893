/* A process is killed; some of the others call collectives on a duplicate of MPI_COMM_WORLD that fail there, others do not, and all free it.
 * What the failed calls sent must not arrive in communicators that are made afterwards.
 *
 * Covers: 7.4.3, 9.3, 11.4.2
 * Ranks: 3 4
 * Exit: 137
 * Stderr: was killed by signal 9 (SIGKILL)
 * Stderr: on without it
 * Stderr: rank 0 went on to its end
 * Absent: FAIL
 * Aborts: yes
 */
#include "killed.h"

enum { LENGTH = 8, BEFORE = 3, COMMS = 4 };

static int in[LENGTH], out[LENGTH];

static int sum_up(MPI_Comm comm)
{
    MPI_Request request;
    int code = MPI_Iallreduce(in, out, LENGTH, MPI_INT, MPI_SUM, comm, &request);
    return code == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code;
}

int main(int argc, char **argv)
{
    int code = MPI_SUCCESS, members;
    MPI_Comm copy;
    MPI_Group world, living;
    check_start(&argc, &argv);
    members = check_size - 1;
    int range[1][3] = {{0, check_size - 2, 1}};
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    for (int i = 0; i < BEFORE; i++) CHECK_OK(sum_up(copy));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    die_among_all(members);
    while (code == MPI_SUCCESS) code = sum_up(MPI_COMM_WORLD);
    CHECK_INT(check_class_of(code), MPI_ERR_PROC_ABORTED);
    sleep(1);
    for (int i = 0; check_rank == 0 && i < 3; i++) CHECK_CLASS(sum_up(copy), MPI_ERR_PROC_ABORTED);
    CHECK_OK(MPI_Comm_free(&copy));
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Group_range_incl(world, 1, range, &living));
    for (int made = 0; made < COMMS; made++) {
        MPI_Comm part, twin;
        CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, living, 7 + made, &part));
        CHECK_OK(MPI_Comm_dup(part, &twin));
        for (int i = 0; i < BEFORE + 6; i++) {
            for (int j = 0; j < LENGTH; j++) {
                in[j] = i + 1;
                out[j] = -1;
            }
            CHECK_OK(sum_up(twin));
            for (int j = 0; j < LENGTH; j++) CHECK_INT(out[j], (i + 1) * members);
        }
    }
    MPI_Finalize();
    if (check_failures == 0) fprintf(stderr, "rank %d went on to its end\n", check_rank);
    return 0;
}
