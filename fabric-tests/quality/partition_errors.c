/* Erroneous uses of partitioned requests are found and named, and have no effect.
 *
 * Covers: 4.2, 4.2.1
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int out[4] = {1, 2, 3, 4}, in[4] = {0}, flag = -1;
    MPI_Request send, receive, other, copy;
    CHECK_CLASS(MPI_Psend_init(out, 0, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Precv_init(in, -1, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &receive), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Precv_init(in, 1, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_SELF, MPI_INFO_NULL, &receive), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Precv_init(in, 1, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_SELF, MPI_INFO_NULL, &receive), MPI_ERR_TAG);
    CHECK_OK(MPI_Psend_init(out, 4, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(in, 4, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &receive));
    CHECK_CLASS(MPI_Pready(0, send), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Start(&send));
    CHECK_CLASS(MPI_Start(&send), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Start(&receive));
    CHECK_CLASS(MPI_Pready(4, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready(-1, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_range(2, 4, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready(0, receive), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready(0, MPI_REQUEST_NULL), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(receive, 4, &flag), MPI_ERR_ARG);
    CHECK_OK(MPI_Pready(1, send));
    CHECK_CLASS(MPI_Pready(1, send), MPI_ERR_ARG);
    /* A list with one wrong entry marks nothing. */
    CHECK_CLASS(MPI_Pready_list(3, (const int[]){0, 2, 2}, send), MPI_ERR_ARG);
    copy = send;
    CHECK_CLASS(MPI_Request_free(&copy), MPI_ERR_REQUEST);
    copy = receive;
    CHECK_CLASS(MPI_Cancel(&copy), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Pready_list(3, (const int[]){0, 2, 3}, send));
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    for (int i = 0; i < 4; i++) CHECK_INT(in[i], i + 1);
    CHECK_OK(MPI_Recv_init(in, 1, MPI_INT, 0, 9, MPI_COMM_SELF, &other));
    CHECK_CLASS(MPI_Pready(0, other), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Request_free(&other));
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    /* Different numbers of bytes: both sides are told, at every start. */
    CHECK_OK(MPI_Psend_init(out, 4, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(in, 3, 1, MPI_INT, 0, 0, MPI_COMM_SELF, MPI_INFO_NULL, &receive));
    for (int round = 0; round < 2; round++) {
        CHECK_OK(MPI_Start(&send));
        CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Pready_range(0, 3, send));
        CHECK_CLASS(MPI_Wait(&receive, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
        CHECK_CLASS(MPI_Wait(&send, MPI_STATUS_IGNORE), MPI_ERR_ARG);
    }
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    return check_end();
}
