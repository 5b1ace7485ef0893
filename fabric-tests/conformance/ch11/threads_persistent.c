/* Persistent requests of several threads, each with a communicator of its own: started and completed by the same thread in every way,
 * mixed with other requests, started by one thread and completed by another, started anew, cancelled and freed, their handles used again.
 *
 * Covers: 3.7.3, 3.7.5, 3.7.6, 3.9, 11.6.1
 * Ranks: 2
 * Timeout: 180
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 3, TURNS = 300, MANY = 6, LONGEST = 40000 };

static MPI_Comm comms[THREADS];

/* What a message of a turn holds, and how long it is: all protocols that a message can go by. */
static int length(int turn, int index)
{
    static const int lengths[] = {1, 8, 300, 5000, LONGEST};
    return lengths[(turn + index) % 5];
}

static void expect(const char *data, int bytes, int seed, const MPI_Status *status, int tag)
{
    int count = -1;
    CHECK_OK(MPI_Get_count(status, MPI_CHAR, &count));
    CHECK_INT(count, bytes);
    CHECK_INT(status->MPI_SOURCE, 1 - check_rank);
    CHECK_INT(status->MPI_TAG, tag);
    for (int i = 0; i < bytes; i += 97) CHECK_INT(data[i], (char)(seed + i));
}

static void put(char *data, int bytes, int seed)
{
    for (int i = 0; i < bytes; i++) data[i] = (char)(seed + i);
}

/* MANY receives and sends, the requests of which stay; completed by another call each turn. */
static void *exchange(void *number)
{
    const int me = (int)(size_t)number, other = 1 - check_rank;
    char *in[MANY], *out[MANY];
    MPI_Request requests[2 * MANY + 1];
    MPI_Status statuses[2 * MANY + 1], status;
    int flag, index, done, indices[2 * MANY + 1];
    for (int i = 0; i < MANY; i++) {
        in[i] = malloc(LONGEST);
        out[i] = malloc(LONGEST);
        CHECK_OK(MPI_Recv_init(in[i], LONGEST, MPI_CHAR, i % 2 ? MPI_ANY_SOURCE : other, i, comms[me], &requests[i]));
        requests[MANY + i] = MPI_REQUEST_NULL;
    }
    requests[2 * MANY] = MPI_REQUEST_NULL;
    for (int turn = 0; turn < TURNS; turn++) {
        int left = 2 * MANY;
        for (int i = 0; i < MANY; i++) {
            /* Sends have another length each turn, so they are made anew: their handles are used again. */
            int bytes = length(turn, i);
            put(out[i], bytes, turn + i + check_rank + me);
            memset(in[i], 0, bytes);
            if (i % 3 == 2)
                CHECK_OK(MPI_Ssend_init(out[i], bytes, MPI_CHAR, other, i, comms[me], &requests[MANY + i]));
            else
                CHECK_OK(MPI_Send_init(out[i], bytes, MPI_CHAR, other, i, comms[me], &requests[MANY + i]));
        }
        /* Inactive requests are complete, and their status is empty. */
        CHECK_OK(MPI_Wait(&requests[MANY], &status));
        CHECK_INT(status.MPI_SOURCE, MPI_ANY_SOURCE);
        CHECK_OK(MPI_Testall(2 * MANY, requests, &flag, statuses));
        CHECK_INT(flag, 1);
        CHECK_OK(MPI_Waitany(2 * MANY, requests, &index, &status));
        CHECK_INT(index, MPI_UNDEFINED);
        if (turn % 2) {
            CHECK_OK(MPI_Startall(2 * MANY, requests));
        } else {
            for (int i = 0; i < 2 * MANY; i++) CHECK_OK(MPI_Start(&requests[i]));
        }
        switch (turn % 6) {
        case 0:
            CHECK_OK(MPI_Waitall(2 * MANY, requests, statuses));
            break;
        case 1:
            for (int i = 0; i < 2 * MANY; i++) CHECK_OK(MPI_Wait(&requests[i], &statuses[i]));
            break;
        case 2:
            for (int i = 0; i < 2 * MANY; i++)
                for (flag = 0; !flag;) CHECK_OK(MPI_Test(&requests[i], &flag, &statuses[i]));
            break;
        case 3:
            for (; left > 0; left--) {
                CHECK_OK(MPI_Waitany(2 * MANY, requests, &index, &status));
                statuses[index] = status;
            }
            CHECK_OK(MPI_Waitany(2 * MANY, requests, &index, &status));
            CHECK_INT(index, MPI_UNDEFINED);
            break;
        case 4:
            while (left > 0) {
                MPI_Status some[2 * MANY];
                CHECK_OK((turn % 4 ? MPI_Waitsome : MPI_Testsome)(2 * MANY, requests, &done, indices, some));
                for (int i = 0; i < done; i++) statuses[indices[i]] = some[i];
                left -= done;
            }
            CHECK_OK(MPI_Waitsome(2 * MANY, requests, &done, indices, MPI_STATUSES_IGNORE));
            CHECK_INT(done, MPI_UNDEFINED);
            break;
        default: {
            /* Together with a request that is none of these. */
            char a = 1, b = 0;
            MPI_Request token;
            CHECK_OK(MPI_Isend(&a, 1, MPI_CHAR, other, 100, comms[me], &token));
            CHECK_OK(MPI_Irecv(&b, 1, MPI_CHAR, other, 100, comms[me], &requests[2 * MANY]));
            for (flag = 0; !flag;) CHECK_OK(MPI_Testall(2 * MANY + 1, requests, &flag, statuses));
            CHECK(requests[2 * MANY] == MPI_REQUEST_NULL);
            CHECK_INT(b, 1);
            CHECK_OK(MPI_Wait(&token, MPI_STATUS_IGNORE));
        }
        }
        for (int i = 0; i < MANY; i++) {
            expect(in[i], length(turn, i), turn + i + other + me, &statuses[i], i);
            CHECK(requests[i] != MPI_REQUEST_NULL);
            CHECK_OK(MPI_Request_free(&requests[MANY + i]));
            CHECK(requests[MANY + i] == MPI_REQUEST_NULL);
        }
    }
    /* What was started and is not wanted any more; the inactive status comes after the cancelled one. */
    CHECK_OK(MPI_Start(&requests[0]));
    CHECK_OK(MPI_Cancel(&requests[0]));
    CHECK_OK(MPI_Wait(&requests[0], &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_INT(flag, 1);
    CHECK_OK(MPI_Wait(&requests[0], &status));
    CHECK_OK(MPI_Test_cancelled(&status, &flag));
    CHECK_INT(flag, 0);
    for (int i = 0; i < MANY; i++) {
        CHECK_OK(MPI_Request_free(&requests[i]));
        free(in[i]);
        free(out[i]);
    }
    return NULL;
}

static MPI_Request handed[2];

/* Completes what the main thread has started. */
static void *complete(void *status)
{
    CHECK_OK(MPI_Waitall(2, handed, status));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, exchange, (void *)(size_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);

    int out = 0, in = 0;
    CHECK_OK(MPI_Recv_init(&in, 1, MPI_INT, 1 - check_rank, 7, comms[0], &handed[0]));
    CHECK_OK(MPI_Send_init(&out, 1, MPI_INT, 1 - check_rank, 7, comms[0], &handed[1]));
    for (int turn = 0; turn < 50; turn++) {
        MPI_Status statuses[2];
        out = 1000 * check_rank + turn;
        /* Started by one thread, completed by another, and the other way about. */
        CHECK_OK(MPI_Startall(2, handed));
        if (turn % 2) {
            pthread_create(&threads[0], NULL, complete, statuses);
            pthread_join(threads[0], NULL);
        } else {
            complete(statuses);
        }
        CHECK_INT(in, 1000 * (1 - check_rank) + turn);
        CHECK_INT(statuses[0].MPI_TAG, 7);
    }
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Request_free(&handed[i]));
    for (int i = 0; i < THREADS; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
