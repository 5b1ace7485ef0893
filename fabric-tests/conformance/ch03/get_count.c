/* MPI_Get_count: whole elements, MPI_UNDEFINED for a part of one, counts that do not fit an int, zero-size types,
 * statuses of probes.
 *
 * Covers: 3.2.5, 3.8.1, 5.1.11
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    unsigned char bytes[64] = {0}, in[64];
    MPI_Status status;
    int count;
    MPI_Count large;
    for (int length = 0; length <= 33; length++) {
        MPI_Request request;
        CHECK_OK(MPI_Isend(bytes, length, MPI_BYTE, 0, 5, MPI_COMM_SELF, &request));
        for (int again = 0; again < 3; again++) {
            /* From a probe, from a repeated probe, from the receive. */
            if (again < 2)
                CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &status));
            else
                CHECK_OK(MPI_Recv(in, 64, MPI_BYTE, 0, 5, MPI_COMM_SELF, &status));
            CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
            CHECK_INT(count, length);
            CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &count));
            CHECK_INT(count, length);
            CHECK_OK(MPI_Get_count(&status, MPI_SHORT, &count));
            CHECK_INT(count, length % 2 ? MPI_UNDEFINED : length / 2);
            CHECK_OK(MPI_Get_count(&status, MPI_INT, &count));
            CHECK_INT(count, length % 4 ? MPI_UNDEFINED : length / 4);
            CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
            CHECK_INT(count, length % 8 ? MPI_UNDEFINED : length / 8);
            CHECK_OK(MPI_Get_count_c(&status, MPI_INT, &large));
            CHECK_INT(large, length % 4 ? MPI_UNDEFINED : length / 4);
        }
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    MPI_Datatype nothing;
    CHECK_OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    CHECK_OK(MPI_Type_commit(&nothing));
    CHECK_OK(MPI_Sendrecv(bytes, 0, MPI_INT, 0, 6, in, 64, MPI_BYTE, 0, 6, MPI_COMM_SELF, &status));
    CHECK_OK(MPI_Get_count(&status, nothing, &count));
    CHECK_INT(count, 0);
    CHECK_OK(MPI_Sendrecv(bytes, 1, MPI_INT, 0, 6, in, 16, MPI_INT, 0, 6, MPI_COMM_SELF, &status));
    CHECK_OK(MPI_Get_count(&status, nothing, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Type_free(&nothing));
    CHECK(nothing == MPI_DATATYPE_NULL);
    return check_end();
}
