/* Thousands of pending sends and receives among all ranks, completed in another order than started.
 *
 * Covers: 3.7.2, 3.7.5
 * Ranks: 1 2 3 5 8
 */
#include "check.h"

#define EACH 600

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int total = EACH * check_size;
    int *in = check_alloc(sizeof(int) * 4 * (size_t)total), *out = check_alloc(sizeof(int) * 4 * (size_t)total);
    MPI_Request *requests = check_alloc(sizeof(MPI_Request) * 2 * (size_t)total);
    MPI_Status *statuses = check_alloc(sizeof(MPI_Status) * 2 * (size_t)total);
    for (int round = 0; round < 3; round++) {
        int n = 0;
        for (int i = 0; i < EACH; i++)
            for (int peer = 0; peer < check_size; peer++, n++) {
                /* Tags run backwards in every second round, so that matching is not first come first served. */
                int tag = round % 2 ? EACH - 1 - i : i;
                in[4 * n] = -1;
                CHECK_OK(MPI_Irecv(&in[4 * n], 4, MPI_INT, peer, tag, MPI_COMM_WORLD, &requests[n]));
            }
        for (int i = 0; i < EACH; i++)
            for (int peer = 0; peer < check_size; peer++, n++) {
                int *message = &out[4 * (n - total)];
                message[0] = i, message[1] = check_rank, message[2] = peer, message[3] = round;
                CHECK_OK(MPI_Isend(message, 4, MPI_INT, peer, i, MPI_COMM_WORLD, &requests[n]));
            }
        if (round == 0)
            CHECK_OK(MPI_Waitall(n, requests, statuses));
        else if (round == 1)
            for (int k = n - 1; k >= 0; k--) CHECK_OK(MPI_Wait(&requests[k], &statuses[k]));
        else
            for (int left = n; left > 0;) {
                int done, indices[64];
                MPI_Status some[64];
                /* A window of the array at a time. */
                for (int at = 0; at < n; at += 64) {
                    CHECK_OK(MPI_Testsome(n - at < 64 ? n - at : 64, &requests[at], &done, indices, some));
                    if (done == MPI_UNDEFINED) continue;
                    for (int k = 0; k < done; k++) statuses[at + indices[k]] = some[k];
                    left -= done;
                }
            }
        n = 0;
        for (int i = 0; i < EACH; i++)
            for (int peer = 0; peer < check_size; peer++, n++) {
                int tag = round % 2 ? EACH - 1 - i : i;
                CHECK_STATUS(statuses[n], peer, tag, MPI_INT, 4);
                CHECK_INT(in[4 * n], tag);
                CHECK_INT(in[4 * n + 1], peer);
                CHECK_INT(in[4 * n + 2], check_rank);
                CHECK_INT(in[4 * n + 3], round);
            }
        for (int k = 0; k < 2 * total; k++) CHECK(requests[k] == MPI_REQUEST_NULL);
    }
    free(in);
    free(out);
    free(requests);
    free(statuses);
    return check_end();
}
