/* Messages to oneself, on MPI_COMM_SELF and MPI_COMM_WORLD, in every mode and size, receive before and after.
 *
 * Covers: 3.2.3, 3.2.4, 3.4
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    unsigned char *out = check_alloc(4 << 20);
    for (int world = 0; world < 2; world++) {
        MPI_Comm comm = world ? MPI_COMM_WORLD : MPI_COMM_SELF;
        int me = world ? check_rank : 0;
        for (int length = 0; length <= 4 << 20; length = length < 4 ? length + 1 : length * 3 - 1)
            for (int mode = 0; mode < 3; mode++)
                for (int late = 0; late < 2; late++) {
                    if (mode == 2 && late) continue; /* ready mode needs its receive */
                    struct guarded in = guarded_new((size_t)length);
                    MPI_Request requests[2];
                    MPI_Status statuses[2];
                    fill(out, (size_t)length, (unsigned)(length + mode));
                    if (!late) CHECK_OK(MPI_Irecv(in.bytes, length, MPI_BYTE, me, mode, comm, &requests[0]));
                    switch (mode) {
                    case 0: CHECK_OK(MPI_Isend(out, length, MPI_BYTE, me, mode, comm, &requests[1])); break;
                    case 1: CHECK_OK(MPI_Issend(out, length, MPI_BYTE, me, mode, comm, &requests[1])); break;
                    default: CHECK_OK(MPI_Irsend(out, length, MPI_BYTE, me, mode, comm, &requests[1]));
                    }
                    if (late) {
                        if (mode == 1) {
                            int flag = 1;
                            CHECK_OK(MPI_Test(&requests[1], &flag, MPI_STATUS_IGNORE));
                            CHECK_INT(flag, 0);
                        }
                        CHECK_OK(MPI_Irecv(in.bytes, length, MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &requests[0]));
                    }
                    CHECK_OK(MPI_Waitall(2, requests, statuses));
                    CHECK_STATUS(statuses[0], me, mode, MPI_BYTE, length);
                    CHECK_FILL(in.bytes, length, length + mode);
                    CHECK_GUARDS(in);
                    free(in.whole);
                }
    }
    free(out);
    return check_end();
}
