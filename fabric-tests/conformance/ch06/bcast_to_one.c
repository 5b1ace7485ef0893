/* Broadcasts to one other of lengths around those at which they may be moved in another way: from both ranks, with a basic type at one
 * end and a derived one of the same signature at the other, after calls that move long vectors in both directions, between
 * broadcasts of eight bytes; and with calls of two threads in turn.
 *
 * Covers: 6.1, 6.4, 11.6.2
 * Ranks: 2 3
 */
#include "check.h"
#include <pthread.h>

enum { MOST = 1 << 20, SIZES = 7 };

static const int sizes[SIZES] = {1 << 15, 1 << 16, (1 << 16) + 1, 1 << 17, (1 << 18) + 24, MOST - 8, MOST};
static unsigned char buffer[MOST], sums[MOST];

static unsigned char byte(int at, int salt)
{
    return (unsigned char)(at * 7 + at / 251 + salt);
}

/* One broadcast; `whole` says who has one element of a derived type. */
static void once(int bytes, int root, int whole)
{
    int salt = bytes + root * 3 + whole, bad = -1;
    for (int i = 0; i < bytes; i++) buffer[i] = check_rank == root ? byte(i, salt) : 0;
    if (check_rank % 2 == whole) {
        MPI_Datatype type;
        CHECK_OK(MPI_Type_contiguous(bytes, MPI_BYTE, &type));
        CHECK_OK(MPI_Type_commit(&type));
        CHECK_OK(MPI_Bcast(buffer, 1, type, root, MPI_COMM_WORLD));
        CHECK_OK(MPI_Type_free(&type));
    } else {
        CHECK_OK(MPI_Bcast(buffer, bytes, MPI_BYTE, root, MPI_COMM_WORLD));
    }
    for (int i = 0; i < bytes && bad < 0; i++)
        if (buffer[i] != byte(i, salt)) bad = i;
    if (bad >= 0) CHECK_FAIL("%d bytes from rank %d: byte %d is wrong", bytes, root, bad);
    long long word = check_rank == root ? bytes : -1;
    CHECK_OK(MPI_Bcast(&word, 1, MPI_LONG_LONG, root, MPI_COMM_WORLD));
    CHECK_INT(word, bytes);
}

static void all(void)
{
    CHECK_OK(MPI_Allreduce(MPI_IN_PLACE, sums, MOST, MPI_UNSIGNED_CHAR, MPI_BOR, MPI_COMM_WORLD));
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < SIZES; i++)
            for (int root = 0; root < 2; root++)
                for (int whole = 0; whole < 3; whole++) once(sizes[i], root, whole);
}

static void *thread(void *nothing)
{
    (void)nothing;
    all();
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    for (int i = 0; i < 3; i++) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    all();
    /* Rank 0's calls come from another thread now, then those of the others. */
    for (int by = 0; by < 2 && provided == MPI_THREAD_MULTIPLE; by++) {
        if (check_rank % 2 == by) {
            pthread_t other;
            pthread_create(&other, NULL, thread, NULL);
            pthread_join(other, NULL);
        } else {
            all();
        }
    }
    return check_end();
}
