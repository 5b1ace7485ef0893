/* A ready partition travels at once: the receiver has it, and says so, before the sender marks the next one.
 *
 * Covers: 4.2, 4.2.2
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {4, 6000, 150000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        size_t part = (size_t)lengths[l];
        unsigned char *data = check_alloc(5 * part);
        MPI_Request request;
        static const int order[] = {2, 4, 0, 1, 3};
        if (check_rank == 0) {
            CHECK_OK(MPI_Psend_init(data, 5, (int)part, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            CHECK_OK(MPI_Start(&request));
            for (int i = 0; i < 5; i++) {
                int flag = 1;
                fill(data + (size_t)order[i] * part, part, (unsigned)order[i]);
                CHECK_OK(MPI_Pready(order[i], request));
                if (i < 4) {
                    CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                    CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
                    CHECK(!flag);
                }
            }
        } else {
            CHECK_OK(MPI_Precv_init(data, 5, (int)part, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            CHECK_OK(MPI_Start(&request));
            for (int i = 0; i < 5; i++) {
                int flag = 0, others = 0;
                while (!flag) CHECK_OK(MPI_Parrived(request, order[i], &flag));
                CHECK_FILL(data + (size_t)order[i] * part, part, order[i]);
                for (int k = i + 1; k < 5; k++) {
                    CHECK_OK(MPI_Parrived(request, order[k], &flag));
                    others |= flag;
                }
                CHECK(!others);
                if (i < 4) CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, i, MPI_COMM_WORLD));
            }
        }
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&request));
        free(data);
    }
    return check_end();
}
