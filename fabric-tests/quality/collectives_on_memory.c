/* Collectives by puts into, and gets from, memory that its owners offer: right results of every length and layout, blocking, of many at a time
 * and persistent ones started again and again with other data, one rank late, in memory that is unmapped and mapped again between starts.
 *
 * Covers: 6.4, 6.8, 6.12, 6.13
 * Ranks: 2 3 4
 * Env: WEFT_COLLECTIVES=alltoall->puts;alltoallv->puts;alltoallw->puts;bcast->binomial-gets
 * Default: WEFT_TRANSPORT=softroce
 * Timeout: 120
 */
#include "check.h"
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 40000, STARTS = 200, MANY = 6 };

static int value(int from, int to, int i, int salt)
{
    return from * 1000003 + to * 10007 + i * 31 + salt;
}

static void prepare(int *send, int count, int salt)
{
    for (int to = 0; to < check_size; to++)
        for (int i = 0; i < count; i++)
            send[to * count + i] = value(check_rank, to, i, salt);
}

static int is_right(const int *recv, int count, int salt)
{
    for (int from = 0; from < check_size; from++)
        for (int i = 0; i < count; i++)
            if (recv[from * count + i] != value(from, check_rank, i, salt))
                return 0;
    return 1;
}

static void blocking(int *send, int *recv)
{
    for (int count = 0; count <= MOST; count = count * 5 + 1) {
        prepare(send, count, count);
        memset(recv, 0xee, sizeof(int) * (size_t)(count * check_size + 1));
        CHECK_OK(MPI_Alltoall(send, count, MPI_INT, recv, count, MPI_INT, MPI_COMM_WORLD));
        CHECK(is_right(recv, count, count));
        CHECK_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, send, count, MPI_INT, MPI_COMM_WORLD));
        CHECK(is_right(send, count, count));
        for (int root = 0; root < check_size; root++) {
            for (int i = 0; i < count; i++)
                recv[i] = check_rank == root ? value(root, 0, i, count) : -1;
            CHECK_OK(MPI_Bcast(recv, count, MPI_INT, root, MPI_COMM_WORLD));
            for (int i = 0; i < count; i++)
                CHECK(recv[i] == value(root, 0, i, count));
        }
    }
}

/* Blocks of other lengths for each pair, with gaps on the receiving side: memory in pieces is not offered. */
static void uneven(int *send, int *recv)
{
    int *counts = check_alloc(sizeof(int) * 4 * (size_t)check_size);
    int *sent_at = counts + check_size, *received = sent_at + check_size, *received_at = received + check_size;
    for (int peer = 0, at = 0; peer < check_size; peer++) {
        counts[peer] = (check_rank + peer) % 3 == 0 ? 0 : 3000 * (check_rank + 1);
        received[peer] = (check_rank + peer) % 3 == 0 ? 0 : 3000 * (peer + 1);
        sent_at[peer] = peer * MOST;
        received_at[peer] = at;
        at += received[peer];
        for (int i = 0; i < counts[peer]; i++)
            send[sent_at[peer] + i] = value(check_rank, peer, i, 5);
    }
    CHECK_OK(MPI_Alltoallv(send, counts, sent_at, MPI_INT, recv, received, received_at, MPI_INT, MPI_COMM_WORLD));
    for (int peer = 0; peer < check_size; peer++)
        for (int i = 0; i < received[peer]; i++)
            CHECK(recv[received_at[peer] + i] == value(peer, check_rank, i, 5));
    MPI_Datatype apart;
    CHECK_OK(MPI_Type_vector(4000, 1, 2, MPI_INT, &apart));
    CHECK_OK(MPI_Type_commit(&apart));
    MPI_Datatype plain[8], gaps[8];
    for (int peer = 0; peer < check_size; peer++) {
        plain[peer] = MPI_INT;
        gaps[peer] = apart;
        counts[peer] = 4000;
        received[peer] = 1;
        sent_at[peer] = peer * 4000 * (int)sizeof(int);
        received_at[peer] = peer * 8000 * (int)sizeof(int);
    }
    prepare(send, 4000, 6);
    memset(recv, 0, sizeof(int) * 8000 * (size_t)check_size);
    CHECK_OK(MPI_Alltoallw(send, counts, sent_at, plain, recv, received, received_at, gaps, MPI_COMM_WORLD));
    for (int peer = 0; peer < check_size; peer++)
        for (int i = 0; i < 4000; i++) {
            CHECK(recv[peer * 8000 + 2 * i] == value(peer, check_rank, i, 6));
            CHECK(i == 3999 || recv[peer * 8000 + 2 * i + 1] == 0);
        }
    CHECK_OK(MPI_Type_free(&apart));
    free(counts);
}

static void many_at_a_time(void)
{
    int *send[MANY], *recv[MANY], count = 5000;
    MPI_Request requests[MANY];
    for (int k = 0; k < MANY; k++) {
        send[k] = check_alloc(sizeof(int) * (size_t)(count * check_size));
        recv[k] = check_alloc(sizeof(int) * (size_t)(count * check_size));
        prepare(send[k], count, k);
        CHECK_OK(MPI_Ialltoall(send[k], count, MPI_INT, recv[k], count, MPI_INT, MPI_COMM_WORLD, &requests[k]));
    }
    CHECK_OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    for (int k = 0; k < MANY; k++) {
        CHECK(is_right(recv[k], count, k));
        free(send[k]);
        free(recv[k]);
    }
}

static void again_and_again(int *send, int *recv)
{
    int count = 2000, *word = check_alloc(sizeof(int) * 3000);
    MPI_Request requests[2];
    CHECK_OK(MPI_Alltoall_init(send, count, MPI_INT, recv, count, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    CHECK_OK(MPI_Bcast_init(word, 3000, MPI_INT, check_size - 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int start = 0; start < STARTS; start++) {
        prepare(send, count, start);
        memset(recv, 0xee, sizeof(int) * (size_t)(count * check_size));
        for (int i = 0; i < 3000; i++)
            word[i] = check_rank == check_size - 1 ? i + start : -1;
        if (start % 50 == check_rank)
            usleep(20000);
        /* Ranks start them in either order. */
        CHECK_OK(MPI_Start(&requests[(start + check_rank) % 2]));
        CHECK_OK(MPI_Start(&requests[(start + check_rank + 1) % 2]));
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(is_right(recv, count, start));
        for (int i = 0; i < 3000; i++)
            CHECK(word[i] == i + start);
    }
    CHECK_OK(MPI_Request_free(&requests[0]));
    CHECK_OK(MPI_Request_free(&requests[1]));
    free(word);
}

/* Other pages at the same addresses: what was registered for an earlier start must not be what a later one writes to. */
static void on_other_pages(void)
{
    int count = 3000;
    size_t bytes = (sizeof(int) * (size_t)(count * check_size) + 65535) / 65536 * 65536;
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    int *send = mmap(NULL, bytes, protection, flags, -1, 0), *recv = mmap(NULL, bytes, protection, flags, -1, 0);
    CHECK(send != MAP_FAILED && recv != MAP_FAILED);
    MPI_Request request;
    CHECK_OK(MPI_Alltoall_init(send, count, MPI_INT, recv, count, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int start = 0; start < 20; start++) {
        prepare(send, count, start);
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(is_right(recv, count, start));
        if (start % 2 == check_rank % 2) {
            CHECK(munmap(recv, bytes) == 0 && munmap(send, bytes) == 0);
            CHECK(mmap(recv, bytes, protection, flags | MAP_FIXED, -1, 0) == recv);
            CHECK(mmap(send, bytes, protection, flags | MAP_FIXED, -1, 0) == send);
        }
    }
    CHECK_OK(MPI_Request_free(&request));
    CHECK(munmap(recv, bytes) == 0 && munmap(send, bytes) == 0);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int *send = check_alloc(sizeof(int) * (size_t)(MOST * check_size + 1));
    int *recv = check_alloc(sizeof(int) * (size_t)(MOST * check_size + 1));
    blocking(send, recv);
    uneven(send, recv);
    many_at_a_time();
    again_and_again(send, recv);
    on_other_pages();
    free(send);
    free(recv);
    return check_end();
}
