/* Thousands of random messages among all ranks: sizes of all protocols, all modes (ready ones to the own rank, which knows that
 * the receive is posted), exact and wildcard receives, probes and matched probes, many outstanding, completed in random portions. The plan is known to all, so every byte is checked.
 *
 * Covers: 3.4, 3.5, 3.7.5, 3.8.1, 3.8.2
 * Ranks: 1 2 3 4 8
 * Timeout: 120
 */
#include "check.h"

#define MESSAGES 3000
#define WINDOW 48
enum { STANDARD, SYNCHRONOUS, BUFFERED, READY, MODES };

struct message {
    int from, to, tag, length, mode;
};

static struct message plan[MESSAGES];
static unsigned state;

static unsigned roll(unsigned n)
{
    state = state * 1664525u + 1013904223u;
    return (unsigned)(((uint64_t)(state >> 4) * n) >> 28);
}

static void make_plan(unsigned seed)
{
    static const int limits[] = {1, 16, 100, 1000, 9000, 40000, 140000};
    state = seed;
    for (int i = 0; i < MESSAGES; i++) {
        plan[i].from = (int)roll((unsigned)check_size);
        plan[i].to = (int)roll((unsigned)check_size);
        plan[i].tag = (int)roll(4);
        plan[i].length = (int)roll((unsigned)limits[roll(7)]);
        plan[i].mode = (int)roll(MODES);
    }
}

static MPI_Request requests[WINDOW];
static unsigned char *buffers[WINDOW];
static int number[WINDOW];

static void finished(int slot, MPI_Status *status)
{
    const struct message *m = &plan[number[slot]];
    if (m->to == check_rank && buffers[slot][0] == 'r') {
        CHECK_STATUS(*status, m->from, m->tag, MPI_BYTE, m->length);
        CHECK_FILL(buffers[slot] + 1, m->length, number[slot]);
        CHECK_BYTES(buffers[slot] + 1 + m->length, 0xA5, 7);
    }
    free(buffers[slot]);
    buffers[slot] = NULL;
}

/* Completes some of the outstanding requests; at least one if asked to. */
static void complete(int wait)
{
    int indices[WINDOW], count = 0;
    MPI_Status statuses[WINDOW];
    if (wait)
        CHECK_OK(MPI_Waitsome(WINDOW, requests, &count, indices, statuses));
    else
        CHECK_OK(MPI_Testsome(WINDOW, requests, &count, indices, statuses));
    if (count == MPI_UNDEFINED) return;
    for (int i = 0; i < count; i++) finished(indices[i], &statuses[i]);
}

static int slot_for(int i, int kind)
{
    for (;;) {
        for (int s = 0; s < WINDOW; s++)
            if (buffers[s] == NULL) {
                buffers[s] = check_alloc((size_t)plan[i].length + 8);
                memset(buffers[s], 0xA5, (size_t)plan[i].length + 8);
                buffers[s][0] = (unsigned char)kind;
                number[s] = i;
                return s;
            }
        complete(1);
    }
}

/* Starts message i in its mode. */
static void start_send(int i, int is_posted)
{
    const struct message *m = &plan[i];
    int s = slot_for(i, 's');
    fill(buffers[s] + 1, (size_t)m->length, (unsigned)i);
#define ARGUMENTS buffers[s] + 1, m->length, MPI_BYTE, m->to, m->tag, MPI_COMM_WORLD, &requests[s]
    switch (m->mode == READY && !is_posted ? STANDARD : m->mode) {
    case SYNCHRONOUS: CHECK_OK(MPI_Issend(ARGUMENTS)); break;
    case BUFFERED: CHECK_OK(MPI_Ibsend(ARGUMENTS)); break;
    case READY: CHECK_OK(MPI_Irsend(ARGUMENTS)); break;
    default: CHECK_OK(MPI_Isend(ARGUMENTS));
    }
}

/* A buffer for all buffered messages of the plan; taken away again when all have left. */
static void *attach(void)
{
    int size = MPI_BSEND_OVERHEAD;
    for (int i = 0; i < MESSAGES; i++)
        if (plan[i].from == check_rank && plan[i].mode == BUFFERED) size += plan[i].length + MPI_BSEND_OVERHEAD;
    void *space = check_alloc((size_t)size);
    CHECK_OK(MPI_Buffer_attach(space, size));
    return space;
}

static void detach(void *space)
{
    void *address;
    int size;
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == space);
    free(space);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int s = 0; s < WINDOW; s++) requests[s] = MPI_REQUEST_NULL;
    unsigned program = check_seed();
    for (unsigned seed = 3 * program + 1; seed <= 3 * program + 3; seed++) {
        make_plan(seed * 7919);
        unsigned own = seed + 100 * (unsigned)check_rank;
        void *space = attach();
        for (int i = 0; i < MESSAGES; i++) {
            const struct message *m = &plan[i];
            if (m->to == check_rank) {
                /* In the order of the plan, so that each message goes to its own receive. */
                int s = slot_for(i, 'r');
                CHECK_OK(MPI_Irecv(buffers[s] + 1, m->length, MPI_BYTE, m->from, m->tag, MPI_COMM_WORLD, &requests[s]));
            }
            if (m->from == check_rank) start_send(i, m->to == check_rank);
            own = own * 1664525u + 1013904223u;
            if ((own >> 20) % 5 == 0) complete(0);
            if ((own >> 20) % 701 == 0) usleep(500);
        }
        for (;;) {
            int left = 0;
            for (int s = 0; s < WINDOW; s++) left += buffers[s] != NULL;
            if (!left) break;
            complete(1);
        }
        detach(space);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        space = attach();

        /* The same plan, received one by one as the messages show themselves. Sends go out in windows of their own. */
        int to_come = 0, sent = 0, next[8][4] = {{0}};
        for (int i = 0; i < MESSAGES; i++) to_come += plan[i].to == check_rank;
        unsigned char *in = check_alloc(140008);
        while (to_come > 0 || sent < MESSAGES) {
            int free_slots = 0;
            for (int s = 0; s < WINDOW; s++) free_slots += buffers[s] == NULL;
            if (sent < MESSAGES && free_slots > 0) {
                const struct message *m = &plan[sent];
                if (m->from == check_rank) start_send(sent, 0);
                sent++;
            } else
                complete(0);
            int flag = 0;
            MPI_Status status;
            MPI_Message message;
            own = own * 1664525u + 1013904223u;
            int matched = (own >> 20) % 2;
            if (to_come == 0) continue;
            if (matched)
                CHECK_OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status));
            else
                CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status));
            if (!flag) continue;
            int source = status.MPI_SOURCE, tag = status.MPI_TAG, i = next[source][tag];
            while (i < MESSAGES && !(plan[i].from == source && plan[i].to == check_rank && plan[i].tag == tag)) i++;
            next[source][tag] = i + 1;
            CHECK(i < MESSAGES);
            if (i >= MESSAGES) break;
            CHECK_STATUS(status, source, tag, MPI_BYTE, plan[i].length);
            if (matched)
                CHECK_OK(MPI_Mrecv(in, 140008, MPI_BYTE, &message, &status));
            else
                CHECK_OK(MPI_Recv(in, 140008, MPI_BYTE, source, tag, MPI_COMM_WORLD, &status));
            CHECK_STATUS(status, source, tag, MPI_BYTE, plan[i].length);
            CHECK_FILL(in, plan[i].length, i);
            to_come--;
        }
        for (;;) {
            int left = 0;
            for (int s = 0; s < WINDOW; s++) left += buffers[s] != NULL;
            if (!left) break;
            complete(1);
        }
        free(in);
        detach(space);
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    return check_end();
}
