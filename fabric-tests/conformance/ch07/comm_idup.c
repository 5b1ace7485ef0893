/* MPI_Comm_idup: many under way at once, on one and on several communicators, overlapping other collectives; as if done at the call:
 * attributes and hints changed afterwards do not count; the parent may be freed; completion in any order, and inside other calls.
 *
 * Covers: 7.4.2, 6.12
 * Ranks: 1 2 3 5
 * Timeout: 120
 */
#include "check.h"

#define MANY 50

static int copies;

static int copy(MPI_Comm comm, int keyval, void *extra, void *in, void *out, int *flag)
{
    (void)comm, (void)keyval, (void)extra;
    copies++;
    *(void **)out = in;
    *flag = 1;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, keyval, flag, result, values[2] = {1, 2};
    MPI_Comm parent, other, twins[MANY];
    MPI_Request requests[MANY], reduce;
    void *found;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -me, &other));
    CHECK_OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &keyval, NULL));

    for (int round = 0; round < 5; round++) {
        copies = 0;
        for (int i = 0; i < MANY; i++) {
            int sum = 0, one = i, wanted = i * n;
            CHECK_OK(MPI_Comm_set_attr(parent, keyval, &values[i % 2]));
            if (i % 3 == 2)
                CHECK_OK(MPI_Comm_idup(other, &twins[i], &requests[i]));
            else if (i % 3 == 1)
                CHECK_OK(MPI_Comm_idup_with_info(parent, MPI_INFO_NULL, &twins[i], &requests[i]));
            else
                CHECK_OK(MPI_Comm_idup(parent, &twins[i], &requests[i]));
            /* At some ranks it has ended by now, at others it has not. */
            if ((i + me) % 7 == 0) CHECK_OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
            /* Collectives of the parent between them, blocking and not. */
            if (i % 5 == 0) {
                CHECK_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent));
                CHECK_INT(sum, wanted);
            }
            if (i % 5 == 1) {
                CHECK_OK(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent, &reduce));
                CHECK_OK(MPI_Wait(&reduce, MPI_STATUS_IGNORE));
                CHECK_INT(sum, wanted);
            }
            if (i % 10 == 7) {
                MPI_Comm blocking;
                CHECK_OK(MPI_Comm_split(parent, me % 2, 0, &blocking));
                CHECK_OK(MPI_Barrier(blocking));
                CHECK_OK(MPI_Comm_free(&blocking));
                CHECK_OK(MPI_Comm_dup(other, &blocking));
                CHECK_OK(MPI_Comm_free(&blocking));
            }
        }
        CHECK_OK(MPI_Comm_set_attr(parent, keyval, &me));
        /* Another order at every rank, all at once in the last round. */
        if (round == 4) {
            CHECK_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
        } else {
            for (int i = 0; i < MANY; i++) CHECK_OK(MPI_Wait(&requests[(i * (2 * me + 1) + round) % MANY], MPI_STATUS_IGNORE));
            for (int i = 0; i < MANY; i++)
                if (requests[i] != MPI_REQUEST_NULL) CHECK_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        }
        for (int i = 0; i < MANY; i++) {
            int sum = 0;
            CHECK_OK(MPI_Comm_compare(i % 3 == 2 ? other : parent, twins[i], &result));
            CHECK_INT(result, MPI_CONGRUENT);
            CHECK_OK(MPI_Comm_get_attr(twins[i], keyval, &found, &flag));
            CHECK_INT(flag, i % 3 != 2);
            if (flag) CHECK(found == &values[i % 2]);
            CHECK_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, twins[i]));
            CHECK_INT(sum, i * n);
            CHECK_OK(MPI_Comm_free(&twins[i]));
        }
    }

    /* Hints as they were at the call; the handle comes into the variable given, also in MPI_Waitany. */
    MPI_Info info, used;
    char value[10];
    int length = sizeof value, index;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "mpi_assert_exact_length", "true"));
    CHECK_OK(MPI_Comm_idup_with_info(parent, info, &twins[0], &requests[0]));
    CHECK_OK(MPI_Info_set(info, "mpi_assert_exact_length", "false"));
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Waitany(1, requests, &index, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Comm_get_info(twins[0], &used));
    CHECK_OK(MPI_Info_get_string(used, "mpi_assert_exact_length", &length, value, &flag));
    if (flag) CHECK_STR(value, "true");
    CHECK_OK(MPI_Info_free(&used));
    CHECK_OK(MPI_Comm_free(&twins[0]));

    /* It moves on inside a blocking call, and its parent may be gone by then. */
    CHECK_OK(MPI_Comm_delete_attr(parent, keyval));
    CHECK_OK(MPI_Comm_idup(parent, &twins[0], &requests[0]));
    CHECK_OK(MPI_Comm_idup(parent, &twins[1], &requests[1]));
    CHECK_OK(MPI_Comm_free(&parent));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2; i++) {
        int sum = 0;
        CHECK_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, twins[i]));
        CHECK_INT(sum, i * n);
        CHECK_OK(MPI_Comm_free(&twins[i]));
    }
    CHECK_OK(MPI_Comm_free(&other));
    CHECK_OK(MPI_Comm_free_keyval(&keyval));
    return check_end();
}
