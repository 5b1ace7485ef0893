/* Buffered sends complete locally within an attached buffer of the prescribed size, and detaching waits for them.
 *
 * Covers: 3.4, 3.6
 * Ranks: 1 2 3
 */
#include "check.h"

#define N 20

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size, one;
    for (int count = 0; count <= 100000; count = count * 10 + 1) {
        CHECK_OK(MPI_Pack_size(count, MPI_INT, MPI_COMM_WORLD, &one));
        int size = N * (one + MPI_BSEND_OVERHEAD), got_size = -1;
        char *space = check_alloc((size_t)size);
        void *got_space = NULL;
        int *numbers = check_alloc(sizeof(int) * (size_t)count);
        CHECK_OK(MPI_Buffer_attach(space, size));
        /* Nobody receives yet: N sends must complete all the same. */
        for (int i = 0; i < N; i++) {
            for (int k = 0; k < count; k++) numbers[k] = i + k + 1000 * check_rank;
            if (i % 2) {
                MPI_Request request;
                CHECK_OK(MPI_Ibsend(numbers, count, MPI_INT, next, i, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            } else
                CHECK_OK(MPI_Bsend(numbers, count, MPI_INT, next, i, MPI_COMM_WORLD));
        }
        memset(numbers, 0xFF, sizeof(int) * (size_t)count);
        for (int i = 0; i < N; i++) {
            MPI_Status status;
            CHECK_OK(MPI_Recv(numbers, count, MPI_INT, before, i, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, before, i, MPI_INT, count);
            for (int k = 0; k < count; k++) CHECK_INT(numbers[k], i + k + 1000 * before);
        }
        CHECK_OK(MPI_Buffer_detach(&got_space, &got_size));
        CHECK(got_space == space);
        CHECK_INT(got_size, size);
        free(space);
        free(numbers);
    }
    return check_end();
}
