/* A collective call that fails at one process alone, for what this process can see by itself, has not been made: the process makes it
 * rightly, and it meets the calls of the others. On young communicators too, whose processes still count calls until they agree how to go on.
 *
 * Covers: 6.4, 6.5, 6.6, 6.9, 9.3
 * Ranks: 2 4
 */
#include "check.h"
#include "told.h"

/* One operation of the kind `kind` with this send and receive argument; rank 0 is the root. */
static int collective(int kind, const int *in, int *out, MPI_Comm comm)
{
    MPI_Request request;
    int code;
    switch (kind) {
    case 0: return MPI_Scatter(in, 1, MPI_INT, out, 1, MPI_INT, 0, comm);
    case 1: return MPI_Gather(in, 1, MPI_INT, out, 1, MPI_INT, 0, comm);
    case 2: return MPI_Reduce(in, out, 1, MPI_INT, MPI_SUM, 0, comm);
    case 3: return MPI_Allreduce(in, out, 1, MPI_INT, MPI_SUM, comm);
    case 4: return MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, comm);
    case 5: code = MPI_Iallreduce(in, out, 1, MPI_INT, MPI_SUM, comm, &request); break;
    case 6: code = MPI_Ireduce(in, out, 1, MPI_INT, MPI_SUM, 0, comm, &request); break;
    default:
        code = MPI_Allreduce_init(in, out, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
        if (code) return code;
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        return MPI_Request_free(&request);
    }
    return code ? code : MPI_Wait(&request, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int in[4], out[4];

    for (int before = 0; before < 8; before++) {
        for (int kind = 0; kind < 8; kind++) {
            MPI_Comm comm;
            CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
            CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
            for (int call = 0; call < before; call++) {
                if (call & 1) CHECK_OK(MPI_Barrier(comm));
                else CHECK_OK(MPI_Bcast(in, 1, MPI_INT, 0, comm));
            }
            for (int again = 0; again < 3; again++) {
                if (check_rank == 0) {
                    TOLD(collective(kind, in, in, comm), MPI_ERR_BUFFER, "overlap", "MPI_IN_PLACE");
                    TOLD(MPI_Scatter(in, 2, MPI_INT, out, 1, MPI_INT, 0, comm), MPI_ERR_TRUNCATE, "own block");
                    TOLD(MPI_Allreduce(in, out, 1, MPI_FLOAT, MPI_BAND, comm), MPI_ERR_OP, "MPI_BAND");
                }
                for (int at = 0; at < check_size; at++) {
                    in[at] = 10 * check_rank + at + 1;
                    out[at] = -1;
                }
                CHECK_OK(collective(kind, in, out, comm));
                int sum = 0;
                for (int rank = 0; rank < check_size; rank++) sum += 10 * rank + 1;
                if (kind == 0) CHECK_INT(out[0], check_rank + 1);
                else if (kind == 3 || kind == 5 || kind == 7) CHECK_INT(out[0], sum);
                else if (kind == 4 || (kind == 1 && check_rank == 0)) CHECK_INT(out[check_size - 1], 10 * (check_size - 1) + 1);
                else if (check_rank == 0) CHECK_INT(out[0], sum);
            }
            CHECK_OK(MPI_Comm_free(&comm));
        }
    }
    return check_end();
}
