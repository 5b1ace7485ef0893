/* Messages of more than 2^31 elements between two processes: contiguous, and from blocks that lie over more than 4 GiB; in the
 * sender's memory nearly everything is the page of zeros, so that 2 GiB are needed in all.
 *
 * Covers: 3.2, 3.2.5, 5.1.2, 5.1.11, 19.2
 * Ranks: 2
 * Timeout: 120
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

static const size_t MIB = (size_t)1 << 20;

static unsigned char *sparse(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        fprintf(stderr, "no address space\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    const MPI_Count blocks = 2049;
    const size_t total = (size_t)blocks * MIB; /* 2^31 + 2^20 */
    const size_t marks[] = {0, 4095, MIB, ((size_t)1 << 31) - 1, (size_t)1 << 31, ((size_t)1 << 31) + 77, total - 1};
    MPI_Datatype gaps;
    CHECK_OK(MPI_Type_create_hvector_c(blocks, (MPI_Count)MIB, (MPI_Count)(2 * MIB), MPI_CHAR, &gaps));
    CHECK_OK(MPI_Type_commit(&gaps));
    unsigned char *memory = sparse(check_rank == 0 ? 2 * total : total);
    for (int with_gaps = 0; with_gaps < 2; with_gaps++) {
        if (check_rank == 0) {
            for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
                size_t at = with_gaps ? marks[i] / MIB * 2 * MIB + marks[i] % MIB : marks[i];
                memory[at] = (unsigned char)(100 + 10 * (int)i + with_gaps);
            }
            if (with_gaps) CHECK_OK(MPI_Send(memory, 1, gaps, 1, 5, MPI_COMM_WORLD));
            else CHECK_OK(MPI_Send_c(memory, (MPI_Count)total, MPI_CHAR, 1, 5, MPI_COMM_WORLD));
        } else {
            MPI_Status status;
            MPI_Count got = -1;
            int small = -1;
            if (with_gaps) CHECK_OK(MPI_Recv_c(memory, (MPI_Count)total, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &status));
            else {
                MPI_Request request;
                CHECK_OK(MPI_Irecv_c(memory, (MPI_Count)total, MPI_CHAR, 0, 5, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Wait(&request, &status));
            }
            CHECK_OK(MPI_Get_count_c(&status, MPI_CHAR, &got));
            CHECK_INT(got, total);
            CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &small));
            CHECK_INT(small, MPI_UNDEFINED);
            CHECK_OK(MPI_Get_elements_c(&status, gaps, &got));
            CHECK_INT(got, total);
            CHECK_OK(MPI_Get_count(&status, gaps, &small));
            CHECK_INT(small, 1);
            for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) CHECK_INT(memory[marks[i]], 100 + 10 * (int)i + with_gaps);
            CHECK_INT(memory[marks[2] + 1], 0);
        }
    }
    CHECK_OK(MPI_Type_free(&gaps));
    munmap(memory, check_rank == 0 ? 2 * total : total);
    return check_end();
}
