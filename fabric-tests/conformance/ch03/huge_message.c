/* A message of more than 2^31 bytes (a large count of bytes, and an int count of doubles): every byte arrives, and
 * MPI_Get_count says MPI_UNDEFINED where an int cannot hold the count. Left out, with a word, on machines with less than 6 GiB of free memory.
 *
 * Covers: 3.2.5, 2.5.8, 5.1.8
 * Ranks: 1 2
 * Timeout: 180
 */
#include "check.h"
#include "room.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int enough = free_kib() > 6 << 20;
    CHECK_OK(MPI_Bcast(&enough, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (!enough) {
        if (check_rank == 0) printf("less than 6 GiB of memory are free: no message of more than 2^31 bytes was tried\n");
        return check_end();
    }
    MPI_Count length = ((MPI_Count)1 << 31) + 12344, count = -1;
    int small = 0, me = check_rank, receiver = check_size - 1;
    MPI_Request requests[2];
    MPI_Status status;
    unsigned char *bytes = check_alloc((size_t)length), *in = bytes;
    for (int how = 0; how < 2; how++) {
        if (me == 0)
            for (size_t i = 0; i < (size_t)length; i += 4096) bytes[i] = (unsigned char)(i >> 12 ^ i >> 20);
        if (me == 0 && check_size == 1) in = check_alloc((size_t)length);
        if (me == receiver) {
            if (how == 0)
                CHECK_OK(MPI_Irecv_c(in, length, MPI_BYTE, 0, how, MPI_COMM_WORLD, &requests[0]));
            else
                CHECK_OK(MPI_Irecv(in, (int)(length / 8), MPI_DOUBLE, 0, how, MPI_COMM_WORLD, &requests[0]));
        }
        if (me == 0) {
            if (how == 0)
                CHECK_OK(MPI_Isend_c(bytes, length, MPI_BYTE, receiver, how, MPI_COMM_WORLD, &requests[1]));
            else
                CHECK_OK(MPI_Isend(bytes, (int)(length / 8), MPI_DOUBLE, receiver, how, MPI_COMM_WORLD, &requests[1]));
        }
        if (me == receiver) {
            CHECK_OK(MPI_Wait(&requests[0], &status));
            CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &small));
            CHECK_INT(small, MPI_UNDEFINED);
            CHECK_OK(MPI_Get_count_c(&status, MPI_BYTE, &count));
            CHECK_INT(count, length);
            CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE, &small));
            CHECK_INT(small, length / 8);
            int bad = 0;
            for (size_t i = 0; i < (size_t)length && !bad; i += 4096) bad = in[i] != (unsigned char)(i >> 12 ^ i >> 20);
            CHECK(!bad);
            memset(in, 0, 64);
        }
        if (me == 0) CHECK_OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
        if (in != bytes) free(in), in = bytes;
    }
    free(bytes);
    return check_end();
}
