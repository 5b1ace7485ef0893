/* A sender may be an epoch ahead: its data must not appear in the buffer of an inactive receive.
 *
 * Covers: 4.2.1, 4.2.2
 * Ranks: 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {1, 5000, 200000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        size_t part = (size_t)lengths[l];
        unsigned char *data = check_alloc(4 * part);
        MPI_Request request;
        if (check_rank == 0) {
            CHECK_OK(MPI_Psend_init(data, 4, (int)part, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            for (unsigned round = 0; round < 20; round++) {
                CHECK_OK(MPI_Start(&request));
                fill(data, 4 * part, round);
                CHECK_OK(MPI_Pready_range(0, 3, request));
                /* Tells the receiver, on another road, that everything is ready. */
                CHECK_OK(MPI_Send(&round, 1, MPI_UNSIGNED, 1, 1, MPI_COMM_WORLD));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
        } else {
            CHECK_OK(MPI_Precv_init(data, 2, (int)(2 * part), MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
            for (unsigned round = 0; round < 20; round++) {
                unsigned said = 99;
                memset(data, 0xEE, 4 * part);
                CHECK_OK(MPI_Recv(&said, 1, MPI_UNSIGNED, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
                CHECK_INT(said, round);
                CHECK_BYTES(data, 0xEE, 4 * part);
                CHECK_OK(MPI_Start(&request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                CHECK_FILL(data, 4 * part, round);
            }
        }
        CHECK_OK(MPI_Request_free(&request));
        free(data);
    }
    return check_end();
}
