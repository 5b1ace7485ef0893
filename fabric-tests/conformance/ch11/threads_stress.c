/* MPI_THREAD_MULTIPLE: four threads of each rank send and receive at random in communicators of their own and in one that all
 * share: all modes, sizes across the protocols, wildcards, probes, persistent requests, collectives. Every message arrives once,
 * whole, in order.
 *
 * Covers: 11.6.1, 11.6.2, 3.4, 3.5, 3.8.2, 3.9, 6.14
 * Ranks: 2 4 8
 * Timeout: 240
 */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define LARGEST 150000
static MPI_Comm own[THREADS], shared;
static unsigned program;

static unsigned next_of(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int length_of(unsigned *state)
{
    switch (next_of(state) % 8) {
    case 0: return 0;
    case 1: return (int)(next_of(state) % LARGEST);
    case 2: return (int)(next_of(state) % 9000);
    default: return (int)(next_of(state) % 120);
    }
}

static void send_in_some_mode(unsigned choice, unsigned char *out, int length, int to, int tag, MPI_Comm comm)
{
    MPI_Request request = MPI_REQUEST_NULL;
    switch (choice % 5) {
    case 0: CHECK_OK(MPI_Isend(out, length, MPI_BYTE, to, tag, comm, &request)); break;
    case 1: CHECK_OK(MPI_Issend(out, length, MPI_BYTE, to, tag, comm, &request)); break;
    case 2: CHECK_OK(MPI_Ibsend(out, length < 2000 ? length : 2000, MPI_BYTE, to, tag, comm, &request)); break;
    case 3:
        CHECK_OK(MPI_Send_init(out, length, MPI_BYTE, to, tag, comm, &request));
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&request));
        return;
    default: CHECK_OK(MPI_Send(out, length, MPI_BYTE, to, tag, comm)); return;
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Receives the message of `from`; a buffered one was cut to 2000 bytes. */
static void receive_somehow(unsigned choice, unsigned char *in, int length, int from, int tag, MPI_Comm comm, int wild, unsigned seed)
{
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    int source = wild && choice % 2 ? MPI_ANY_SOURCE : from, flag = 0;
    switch (choice % 4) {
    case 0: CHECK_OK(MPI_Recv(in, length, MPI_BYTE, source, tag, comm, &status)); break;
    case 1:
        CHECK_OK(MPI_Irecv(in, length, MPI_BYTE, source, tag, comm, &request));
        while (!flag) CHECK_OK(MPI_Test(&request, &flag, &status));
        break;
    case 2:
        CHECK_OK(MPI_Mprobe(source, tag, comm, &message, &status));
        CHECK_OK(MPI_Mrecv(in, length, MPI_BYTE, &message, &status));
        break;
    default:
        CHECK_OK(MPI_Probe(source, wild ? MPI_ANY_TAG : tag, comm, &status));
        CHECK_OK(MPI_Recv(in, length, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm, &status));
    }
    CHECK_STATUS(status, from, tag, MPI_BYTE, length);
    CHECK_FILL(in, (size_t)length, seed);
}

static void exchange(MPI_Comm comm, int t, int tag, unsigned *state, unsigned seed, int wild, unsigned char *out, unsigned char *in)
{
    int n = check_size, to = (check_rank + 1) % n, from = (check_rank + n - 1) % n;
    unsigned mode = next_of(state), how = next_of(state);
    int length = length_of(state);
    if (mode % 5 == 2 && length > 2000) length = 2000;
    fill(out, (size_t)length, seed + (unsigned)(check_rank + 16 * t));
    if (mode % 7 == 0) {
        MPI_Status status;
        CHECK_OK(MPI_Sendrecv(out, length, MPI_BYTE, to, tag, in, length, MPI_BYTE, from, tag, comm, &status));
        CHECK_STATUS(status, from, tag, MPI_BYTE, length);
        CHECK_FILL(in, (size_t)length, seed + (unsigned)(from + 16 * t));
        return;
    }
    /* Even ranks send first, so that synchronous sends in a circle meet a receive. */
    if (check_rank % 2 == 0) send_in_some_mode(mode, out, length, to, tag, comm);
    receive_somehow(how, in, length, from, tag, comm, wild, seed + (unsigned)(from + 16 * t));
    if (check_rank % 2) send_in_some_mode(mode, out, length, to, tag, comm);
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument;
    unsigned state = 20261121u + (unsigned)t + program * 2654435761u;
    unsigned char *out = check_alloc(LARGEST), *in = check_alloc(LARGEST);
    for (int i = 0; i < 160; i++) {
        unsigned seed = (unsigned)(1000 * i);
        if (next_of(&state) % 3)
            exchange(own[t], t, i, &state, seed, 1, out, in);
        else
            exchange(shared, t, 1000 * t + i, &state, seed, 0, out, in);
        if (i % 10 == 9) {
            int sum = 0, mine = check_rank + t, all = 0;
            CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, own[t]));
            for (int r = 0; r < check_size; r++) all += r + t;
            CHECK_INT(sum, all);
        }
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    static char buffer[64 * (2000 + MPI_BSEND_OVERHEAD)];
    void *detached;
    int size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    program = check_seed();
    CHECK_OK(MPI_Buffer_attach(buffer, sizeof buffer));
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[t]));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    pthread_t threads[THREADS];
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    CHECK_OK(MPI_Buffer_detach(&detached, &size));
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&own[t]));
    CHECK_OK(MPI_Comm_free(&shared));
    return check_end();
}
