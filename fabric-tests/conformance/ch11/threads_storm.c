/* MPI_THREAD_MULTIPLE, a storm: in every round four threads of each rank exchange a plan of messages among all ranks, some in a
 * communicator of the thread's own, some in one that all share, in all four modes, nonblocking, blocking and persistent, posted
 * before and after their messages, and complete them by every call there is. Beside it receives that nobody answers are
 * cancelled, sends are freed under way, and all threads mark partitions of one partitioned send.
 *
 * Covers: 11.6.1, 11.6.2, 3.4, 3.5, 3.7.3, 3.7.5, 3.8.4, 3.9, 4.2.1, 4.2.2
 * Ranks: 2 3 5 8
 * Timeout: 240
 */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define ROUNDS 30
#define EACH 3 /* messages of a thread of one rank in one round */
#define MOST (EACH * 8)
#define LARGEST 90000
#define BUFFERED 1500
#define PARTS 16
#define PART 700

static MPI_Comm own[THREADS], shared;
static MPI_Request into, out_of;
static unsigned char parts_out[PARTS * PART], parts_in[PARTS * PART];
static pthread_barrier_t all;
/* Data of buffered sends whose requests were freed: whether they are still read shows only when the buffer is detached. */
static unsigned char *lent[THREADS][ROUNDS * EACH];
static int lent_count[THREADS];

struct message {
    int from, to, tag, length, mode, form;
    unsigned char *bytes;
};

static unsigned roll(unsigned *state, unsigned n)
{
    *state = *state * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)(*state >> 4) * n) >> 28);
}

static unsigned program;

enum { STANDARD, SYNCHRONOUS, BUFFER, READY };

/* The same at every rank: what the threads t exchange in this round. Ready sends only where receives are posted before. */
static int plan_of(struct message *plan, int t, int round, int posted)
{
    static const unsigned limits[] = {1, 60, 300, 5000, LARGEST};
    unsigned state = (unsigned)(7919 * round + 131 * t + 17) + program * 2654435761u;
    int count = 0;
    for (int from = 0; from < check_size; from++)
        for (int i = 0; i < EACH; i++, count++) {
            struct message *m = &plan[count];
            m->from = from;
            m->to = (int)roll(&state, (unsigned)check_size);
            m->tag = (t * ROUNDS + round) * MOST + count;
            m->mode = (int)roll(&state, posted ? 4 : 3);
            m->form = (int)roll(&state, 3);
            m->length = (int)roll(&state, limits[roll(&state, 5)]);
            if (m->mode == BUFFER && m->length > BUFFERED) m->length = BUFFERED;
            m->bytes = NULL;
        }
    return count;
}

static MPI_Comm comm_of(const struct message *m, int t)
{
    return m->tag % 3 ? own[t] : shared;
}

static int isend(struct message *m, MPI_Comm c, MPI_Request *r)
{
    switch (m->mode) {
    case SYNCHRONOUS: return MPI_Issend(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    case BUFFER: return MPI_Ibsend(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    case READY: return MPI_Irsend(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    default: return MPI_Isend(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    }
}

static int send_init(struct message *m, MPI_Comm c, MPI_Request *r)
{
    switch (m->mode) {
    case SYNCHRONOUS: return MPI_Ssend_init(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    case BUFFER: return MPI_Bsend_init(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    case READY: return MPI_Rsend_init(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    default: return MPI_Send_init(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c, r);
    }
}

static int send_now(struct message *m, MPI_Comm c)
{
    switch (m->mode) {
    case BUFFER: return MPI_Bsend(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c);
    case READY: return MPI_Rsend(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c);
    case SYNCHRONOUS: return MPI_Ssend(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c);
    default: return MPI_Send(m->bytes, m->length, MPI_BYTE, m->to, m->tag, c);
    }
}

static void arrived(const struct message *m, const MPI_Status *status)
{
    CHECK_STATUS(*status, m->from, m->tag, MPI_BYTE, m->length);
    CHECK_FILL(m->bytes, m->length, m->tag);
}

/* Completes `count` requests by one of the calls; the first `receives` are those of `messages`. */
static void complete(int how, MPI_Request *requests, int count, struct message **messages, int receives)
{
    MPI_Status statuses[2 * MOST];
    int indices[2 * MOST], done = 0, some = 0, flag = 0;
    if (how == 0 || how == 1) {
        if (how == 0) CHECK_OK(MPI_Waitall(count, requests, statuses));
        while (how == 1 && !flag) CHECK_OK(MPI_Testall(count, requests, &flag, statuses));
        for (int i = 0; i < receives; i++) arrived(messages[i], &statuses[i]);
        return;
    }
    while (done < count) {
        switch (how) {
        case 2:
            CHECK_OK(MPI_Waitany(count, requests, indices, statuses));
            some = 1;
            break;
        case 3: CHECK_OK(MPI_Waitsome(count, requests, &some, indices, statuses)); break;
        case 4: CHECK_OK(MPI_Testsome(count, requests, &some, indices, statuses)); break;
        default:
            CHECK_OK(MPI_Testany(count, requests, indices, &flag, statuses));
            some = flag ? 1 : 0;
        }
        CHECK(some != MPI_UNDEFINED);
        for (int i = 0; i < some; i++)
            if (indices[i] < receives) arrived(messages[indices[i]], &statuses[i]);
        done += some;
    }
}

static void exchange(int t, int round, unsigned *state)
{
    struct message plan[MOST], *mine[2 * MOST];
    MPI_Request requests[2 * MOST], persistent[MOST], freed;
    int posted = round % 2, count = plan_of(plan, t, round, posted), receives = 0, used = 0, kept = 0;
    int nobody = 0;
    if (posted)
        CHECK_OK(MPI_Irecv(&nobody, 1, MPI_INT, MPI_ANY_SOURCE, THREADS * ROUNDS * MOST + t, shared, &freed));
    for (int i = 0; i < count; i++)
        if (plan[i].to == check_rank || plan[i].from == check_rank) plan[i].bytes = check_alloc((size_t)plan[i].length + 1);
    struct message sent[MOST];
    memcpy(sent, plan, sizeof sent);
    for (int i = 0; i < count; i++)
        if (plan[i].from == check_rank && plan[i].to == check_rank) sent[i].bytes = check_alloc((size_t)plan[i].length + 1);
    for (int i = 0; i < count; i++)
        if (plan[i].from == check_rank) fill(sent[i].bytes, (size_t)sent[i].length, (unsigned)sent[i].tag);
    for (int late = 0; late < 2; late++) {
        if (late == posted) {
            /* The own communicator's other ranks: all of the threads t have posted their receives. */
            if (posted) CHECK_OK(MPI_Barrier(own[t]));

            for (int i = 0; i < count; i++) {
                if (sent[i].from != check_rank) continue;
                MPI_Comm comm = comm_of(&sent[i], t);
                MPI_Request *request = &requests[MOST + used];
                /* What blocks until it is received waits for nobody only where all receives are posted. */
                int may_block = posted || sent[i].mode == BUFFER;
                if (sent[i].form == 2) {
                    CHECK_OK(send_init(&sent[i], comm, &persistent[kept]));
                    CHECK_OK(MPI_Start(&persistent[kept]));
                    kept++;
                } else if (sent[i].form == 1 && may_block) {
                    CHECK_OK(send_now(&sent[i], comm));
                } else if (sent[i].mode == BUFFER) {
                    CHECK_OK(isend(&sent[i], comm, request));
                    CHECK_OK(MPI_Request_free(request));
                    if (sent[i].to == check_rank) {
                        lent[t][lent_count[t]++] = sent[i].bytes;
                        sent[i].bytes = NULL;
                    } else {
                        lent[t][lent_count[t]++] = plan[i].bytes;
                        sent[i].bytes = plan[i].bytes = NULL;
                    }
                } else {
                    CHECK_OK(isend(&sent[i], comm, request));
                    used++;
                }
            }
        } else {
            for (int i = 0; i < count; i++) {
                if (plan[i].to != check_rank) continue;
                int source = plan[i].tag % 2 ? MPI_ANY_SOURCE : plan[i].from;
                mine[receives] = &plan[i];
                CHECK_OK(MPI_Irecv(plan[i].bytes, plan[i].length, MPI_BYTE, source, plan[i].tag, comm_of(&plan[i], t), &requests[receives]));
                receives++;
            }
        }
    }
    memmove(requests + receives, requests + MOST, (size_t)used * sizeof *requests);
    complete((int)roll(state, 6), requests, receives + used, mine, receives);
    CHECK_OK(MPI_Waitall(kept, persistent, MPI_STATUSES_IGNORE));
    for (int i = 0; i < kept; i++) CHECK_OK(MPI_Request_free(&persistent[i]));
    if (posted) {
        MPI_Status status;
        int cancelled = 0;
        CHECK_OK(MPI_Cancel(&freed));
        CHECK_OK(MPI_Wait(&freed, &status));
        CHECK_OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK_INT(cancelled, 1);
    }
    for (int i = 0; i < count; i++) {
        if (sent[i].bytes != plan[i].bytes) free(sent[i].bytes);
        free(plan[i].bytes);
    }
}

/* Partitions that all threads of the process make ready, each its own quarter, last ones first. */
static void partitions(int t, int round)
{
    if (t == 0) {
        memset(parts_in, 0, sizeof parts_in);
        MPI_Request both[2] = {into, out_of};
        CHECK_OK(MPI_Startall(2, both));
    }
    pthread_barrier_wait(&all);
    for (int p = PARTS - 1; p >= 0; p--) {
        if (p % THREADS != t) continue;
        fill(parts_out + p * PART, PART, (unsigned)(100 * round + p));
        CHECK_OK(MPI_Pready(p, out_of));
    }
    for (int p = t, flag = 0; p < PARTS; p += THREADS, flag = 0) {
        while (!flag) CHECK_OK(MPI_Parrived(into, p, &flag));
        CHECK_FILL(parts_in + p * PART, PART, 100 * round + p);
    }
    pthread_barrier_wait(&all);
    if (t == 0) {
        MPI_Request both[2] = {into, out_of};
        CHECK_OK(MPI_Waitall(2, both, MPI_STATUSES_IGNORE));
    }
}

static void *work(void *argument)
{
    int t = (int)(intptr_t)argument;
    unsigned state = (unsigned)(20261121 + 10 * t + check_rank) + program * 40503u;
    for (int round = 0; round < ROUNDS; round++) {
        exchange(t, round, &state);
        if (round % 5 == 4) partitions(t, round);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, size;
    static char buffer[THREADS * (EACH + 1) * 4 * (BUFFERED + MPI_BSEND_OVERHEAD)];
    void *detached;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    program = check_seed();
    CHECK_OK(MPI_Buffer_attach(buffer, sizeof buffer));
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &own[t]));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    CHECK_OK(MPI_Psend_init(parts_out, PARTS, PART, MPI_BYTE, (check_rank + 1) % check_size, 5, shared, MPI_INFO_NULL, &out_of));
    CHECK_OK(MPI_Precv_init(parts_in, PARTS, PART, MPI_BYTE, (check_rank + check_size - 1) % check_size, 5, shared, MPI_INFO_NULL, &into));
    pthread_barrier_init(&all, NULL, THREADS);
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *)(intptr_t)t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    CHECK_OK(MPI_Request_free(&into));
    CHECK_OK(MPI_Request_free(&out_of));
    CHECK_OK(MPI_Buffer_detach(&detached, &size));
    for (int t = 0; t < THREADS; t++)
        for (int i = 0; i < lent_count[t]; i++) free(lent[t][i]);
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_Comm_free(&own[t]));
    CHECK_OK(MPI_Comm_free(&shared));
    return check_end();
}
