/* More than 2^32 bytes: 5 GiB packed and unpacked, and sent, on memory that is reserved but hardly there; counts, extents and
 * positions in 64 bits; pieces of it at far positions.
 *
 * Covers: 5.1.2, 5.1.5, 5.1.11, 5.2, 19.2
 * Ranks: 1
 */
#define _GNU_SOURCE
#include "check.h"
#include <sys/mman.h>

static const size_t GIB = (size_t)1 << 30;

/* Pages that are only read are all the same page of zeros; large ones, so that there are few faults. */
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
    /* 5 Gi blocks of 1 byte, 3 bytes apart, of which few pages are ever touched: 15 GiB of addresses. */
    const MPI_Count total = (MPI_Count)(5 * GIB);
    MPI_Datatype type;
    MPI_Count size, lb, extent, position;
    int small;
    CHECK_OK(MPI_Type_vector_c(total, 1, 3, MPI_CHAR, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_size_c(type, &size));
    CHECK_INT(size, total);
    CHECK_OK(MPI_Type_size(type, &small));
    CHECK_INT(small, MPI_UNDEFINED);
    CHECK_OK(MPI_Type_get_extent_c(type, &lb, &extent));
    CHECK_INT(extent, 3 * total - 2);
    CHECK_OK(MPI_Type_free(&type));

    /* 5 GiB of data in blocks of 1 MiB, every second MiB; packed into chunks of a file of zeros but for a few marks. */
    const size_t block = (size_t)1 << 20, blocks = 5 * 1024;
    CHECK_OK(MPI_Type_vector_c((MPI_Count)blocks, (MPI_Count)block, 2 * (MPI_Count)block, MPI_BYTE, &type));
    CHECK_OK(MPI_Type_commit(&type));
    unsigned char *user = sparse(2 * blocks * block), *mark;
    static const size_t marks[] = {0, 1, 1000, 2047, 2048, 4095, 4096, 5119};
    enum { MARKS = sizeof marks / sizeof *marks };
    for (size_t i = 0; i < MARKS; i++) {
        mark = user + 2 * marks[i] * block;
        mark[0] = (unsigned char)(i + 1);
        mark[block - 1] = (unsigned char)(i + 101);
        mark[block] = 0xEE; /* in the gap */
    }
    /* The packing buffer is one window of 64 MiB that is mapped again and again: 5 GiB of addresses, 64 MiB of memory. */
    const size_t window = (size_t)64 << 20;
    int file = memfd_create("packed", 0);
    CHECK(file >= 0 && ftruncate(file, (off_t)window) == 0);
    unsigned char *packed = sparse(5 * GIB);
    for (size_t at = 0; at < 5 * GIB; at += window)
        CHECK(mmap(packed + at, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED);
    position = 0;
    CHECK_OK(MPI_Pack_c(user, 1, type, packed, (MPI_Count)(5 * GIB), &position, MPI_COMM_SELF));
    CHECK_INT(position, total);
    /* What was packed last is what the window holds: blocks 5056 to 5119. */
    CHECK_INT(packed[window - block], 8);
    CHECK_INT(packed[window - 1], 108);
    CHECK_INT(packed[0], 0);
    munmap(packed, 5 * GIB);
    close(file);

    /* Unpacked from behind 4 GiB: 64 MiB of sevens end up in the last blocks and nowhere else. */
    MPI_Datatype last;
    MPI_Count one = 64, where = 2 * (MPI_Count)(blocks - 64) * (MPI_Count)block;
    MPI_Datatype blocks64;
    CHECK_OK(MPI_Type_vector_c(64, (MPI_Count)block, 2 * (MPI_Count)block, MPI_BYTE, &blocks64));
    one = 1;
    CHECK_OK(MPI_Type_create_hindexed_c(1, &one, &where, blocks64, &last));
    CHECK_OK(MPI_Type_commit(&last));
    unsigned char *data = malloc(window);
    memset(data, 7, window);
    position = 0;
    CHECK_OK(MPI_Unpack_c(data, (MPI_Count)window, &position, user, 1, last, MPI_COMM_SELF));
    CHECK_INT(position, window);
    CHECK_INT(user[where], 7);
    CHECK_INT(user[where + (MPI_Count)block], 0);
    CHECK_INT(user[2 * 5119 * block], 7);
    CHECK_INT(user[2 * 5119 * block + block], 0xEE);
    CHECK_INT(user[where - 1], 0);

    /* Sent to ourselves as one message of more than 2^31 bytes, received by another layout of as many bytes. */
    MPI_Datatype half;
    MPI_Request request;
    MPI_Status status;
    MPI_Count elements;
    CHECK_OK(MPI_Type_vector_c(2304, (MPI_Count)block, 2 * (MPI_Count)block, MPI_BYTE, &half));
    CHECK_OK(MPI_Type_commit(&half));
    file = memfd_create("received", 0);
    CHECK(file >= 0 && ftruncate(file, (off_t)window) == 0);
    packed = sparse(36 * window);
    for (size_t at = 0; at < 36 * window; at += window)
        CHECK(mmap(packed + at, window, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != MAP_FAILED);
    CHECK_OK(MPI_Irecv_c(packed, 2304 * (MPI_Count)block, MPI_BYTE, 0, 1, MPI_COMM_SELF, &request));
    CHECK_OK(MPI_Send(user, 1, half, 0, 1, MPI_COMM_SELF));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK_OK(MPI_Get_elements_c(&status, MPI_BYTE, &elements));
    CHECK_INT(elements, 2304 * (MPI_Count)block);
    CHECK_OK(MPI_Get_elements(&status, MPI_BYTE, &small));
    CHECK_INT(small, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_count_c(&status, half, &elements));
    CHECK_INT(elements, 1);
    MPI_Datatype all[4] = {type, last, blocks64, half};
    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Type_free(&all[i]));
    return check_end();
}
