/* Counts the instructions of single MPI calls, under valgrind's callgrind: `benches/instructions` runs it and reads the counts.
 *
 * Rank 0 runs under callgrind and collects only between two marks; rank 1 runs free. The two agree through a shared line
 * outside MPI on whose turn it is, so that a message is known to have arrived, or to have been taken, before the call that is
 * counted, and every count is the same in every run.
 *
 * Built with -DLANES it counts calls with MPI_THREAD_MULTIPLE on a communicator that lives in a lane of its own: rows "lane_...". Built with
 * -DSERIALIZED it counts them at MPI_THREAD_SERIALIZED: rows "serialized_...".
 */
#include "counting.h"

#ifdef LANES
static MPI_Comm COMM;
#define NAME(row) "lane_" row
#elif defined SERIALIZED
#define COMM MPI_COMM_WORLD
#define NAME(row) "serialized_" row
#else
#define COMM MPI_COMM_WORLD
#define NAME(row) row
#endif

/* LAP: so many messages of 1 KiB go once round what memory a ring has, whose first use costs system calls. */
enum { LAP = 400, WINDOW = 64 };

/* Lets the other rank go on, and waits until it has done its part. */
static void let_other(void)
{
    give_turn(++turn);
    await_turn(++turn);
}

#include "counting_collectives.h"

/* A message that the other takes before the next one is sent. */
static void send_call(int size)
{
    if (rank == 0) {
        COUNT(MPI_Send(data, size, MPI_CHAR, 1, 7, COMM));
        let_other();
    } else {
        await_other();
        MPI_Recv(data, size, MPI_CHAR, 0, 7, COMM, MPI_STATUS_IGNORE);
        done();
    }
}

static void isend_with(int size, int count_wait)
{
    MPI_Request request;
    if (rank == 0) {
        if (count_wait) {
            MPI_Isend(data, size, MPI_CHAR, 1, 7, COMM, &request);
            COUNT(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            COUNT(MPI_Isend(data, size, MPI_CHAR, 1, 7, COMM, &request));
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        let_other();
    } else {
        await_other();
        MPI_Recv(data, size, MPI_CHAR, 0, 7, COMM, MPI_STATUS_IGNORE);
        done();
    }
}

static void isend_call(int size)
{
    isend_with(size, 0);
}

static void wait_of_isend(int size)
{
    isend_with(size, 1);
}

/* A message that has arrived, and nobody has looked yet. */
static void recv_of_arrived(int size)
{
    if (rank == 0) {
        let_other();
        COUNT(MPI_Recv(data, size, MPI_CHAR, 1, 7, COMM, MPI_STATUS_IGNORE));
    } else {
        await_other();
        MPI_Send(data, size, MPI_CHAR, 0, 7, COMM);
        done();
    }
}

#ifndef SERIALIZED
/* A message that comes so late that the receiver waits, and mostly sleeps. */
static void recv_of_late(int size)
{
    if (rank == 0) {
        give_turn(++turn);
        COUNT(MPI_Recv(data, size, MPI_CHAR, 1, 7, COMM, MPI_STATUS_IGNORE));
        await_turn(++turn);
    } else {
        await_other();
        usleep(20000);
        MPI_Send(data, size, MPI_CHAR, 0, 7, COMM);
        done();
    }
}
#endif

/* A receive posted before its message comes. */
static void irecv_with(int size, int count_wait)
{
    MPI_Request request;
    if (rank == 0) {
        if (count_wait) {
            MPI_Irecv(data, size, MPI_CHAR, 1, 7, COMM, &request);
            let_other();
            COUNT(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            COUNT(MPI_Irecv(data, size, MPI_CHAR, 1, 7, COMM, &request));
            let_other();
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        await_other();
        MPI_Send(data, size, MPI_CHAR, 0, 7, COMM);
        done();
    }
}

static void irecv_call(int size)
{
    irecv_with(size, 0);
}

static void wait_of_arrived(int size)
{
    irecv_with(size, 1);
}

/* A receive posted before its message comes, and its wait: what a message costs the receiver in all. */
static void irecv_and_wait(int size)
{
    MPI_Request request;
    if (rank == 0) {
        COUNT(MPI_Irecv(data, size, MPI_CHAR, 1, 7, COMM, &request));
        let_other();
        COUNT(MPI_Wait(&request, MPI_STATUS_IGNORE));
    } else {
        await_other();
        MPI_Send(data, size, MPI_CHAR, 0, 7, COMM);
        done();
    }
}

/* A window of receives whose messages have all arrived: counts the one Waitall. */
static void waitall_of_arrived(int size)
{
    MPI_Request requests[WINDOW];
    int i;
    for (i = 0; i < WINDOW; i++) {
        if (rank == 0)
            MPI_Irecv(data + i * size, size, MPI_CHAR, 1, 7, COMM, &requests[i]);
    }
    if (rank == 0) {
        let_other();
        COUNT(MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE));
    } else {
        await_other();
        for (i = 0; i < WINDOW; i++)
            MPI_Send(data, size, MPI_CHAR, 0, 7, COMM);
        done();
    }
}

/* A window of sends: counts the one Waitall, which has nothing to wait for. */
static void waitall_of_isends(int size)
{
    MPI_Request requests[WINDOW];
    int i;
    if (rank == 0) {
        for (i = 0; i < WINDOW; i++)
            MPI_Isend(data, size, MPI_CHAR, 1, 7, COMM, &requests[i]);
        COUNT(MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE));
        let_other();
    } else {
        await_other();
        for (i = 0; i < WINDOW; i++)
            MPI_Recv(data, size, MPI_CHAR, 0, 7, COMM, MPI_STATUS_IGNORE);
        done();
    }
}

/* Persistent requests, made once. */
static MPI_Request persistent_send = MPI_REQUEST_NULL, persistent_receive = MPI_REQUEST_NULL;

static void start_of_send(int size)
{
    if (rank == 0) {
        if (persistent_send == MPI_REQUEST_NULL)
            MPI_Send_init(data, size, MPI_CHAR, 1, 7, COMM, &persistent_send);
        COUNT(MPI_Start(&persistent_send));
        MPI_Wait(&persistent_send, MPI_STATUS_IGNORE);
        let_other();
    } else {
        await_other();
        MPI_Recv(data, size, MPI_CHAR, 0, 7, COMM, MPI_STATUS_IGNORE);
        done();
    }
}

static void start_of_receive(int size)
{
    if (rank == 0) {
        if (persistent_receive == MPI_REQUEST_NULL)
            MPI_Recv_init(data, size, MPI_CHAR, 1, 7, COMM, &persistent_receive);
        COUNT(MPI_Start(&persistent_receive));
        let_other();
        MPI_Wait(&persistent_receive, MPI_STATUS_IGNORE);
    } else {
        await_other();
        MPI_Send(data, size, MPI_CHAR, 0, 7, COMM);
        done();
    }
}

/* Partitioned requests of eight partitions, made anew for another size. Counted is one part of a start's way. */
enum { PARTITIONS = 8 };
enum part { START, READY, WAIT };
static MPI_Request partitioned[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}; /* from rank 0 to 1, and back */
static int partitioned_size;

static void make_partitioned(int size)
{
    int way;
    if (size == partitioned_size)
        return;
    for (way = 0; way < 2; way++) {
        if (partitioned[way] != MPI_REQUEST_NULL)
            MPI_Request_free(&partitioned[way]);
        if (size == 0)
            continue;
        if (rank == way)
            MPI_Psend_init(data, PARTITIONS, size / PARTITIONS, MPI_CHAR, !rank, 8, COMM, MPI_INFO_NULL, &partitioned[way]);
        else
            MPI_Precv_init(data + MOST / 2, PARTITIONS, size / PARTITIONS, MPI_CHAR, !rank, 8, COMM, MPI_INFO_NULL, &partitioned[way]);
        /* From the first start on both know each other: later sends are complete before their receive starts. */
        MPI_Start(&partitioned[way]);
        if (rank == way)
            MPI_Pready_range(0, PARTITIONS - 1, partitioned[way]);
        MPI_Wait(&partitioned[way], MPI_STATUS_IGNORE);
    }
    partitioned_size = size;
}

#define COUNT_IF(wanted, call) \
    do {                       \
        if (wanted)            \
            COUNT(call);       \
        else                   \
            call;              \
    } while (0)

static void send_in_parts(int size, enum part counted)
{
    int i;
    make_partitioned(size);
    if (rank == 0) {
        COUNT_IF(counted == START, MPI_Start(&partitioned[0]));
        for (i = 0; i < PARTITIONS; i++)
            COUNT_IF(counted == READY, MPI_Pready(i, partitioned[0]));
        COUNT_IF(counted == WAIT, MPI_Wait(&partitioned[0], MPI_STATUS_IGNORE));
        let_other();
    } else {
        await_other();
        MPI_Start(&partitioned[0]);
        MPI_Wait(&partitioned[0], MPI_STATUS_IGNORE);
        done();
    }
}

static void receive_in_parts(int size, enum part counted)
{
    int i;
    make_partitioned(size);
    if (rank == 0) {
        COUNT_IF(counted == START, MPI_Start(&partitioned[1]));
        let_other();
        COUNT_IF(counted == WAIT, MPI_Wait(&partitioned[1], MPI_STATUS_IGNORE));
    } else {
        await_other();
        MPI_Start(&partitioned[1]);
        for (i = 0; i < PARTITIONS; i++)
            MPI_Pready(i, partitioned[1]);
        MPI_Wait(&partitioned[1], MPI_STATUS_IGNORE);
        done();
    }
}

static void start_of_psend(int size)
{
    send_in_parts(size, START);
}

static void eight_preadys(int size)
{
    send_in_parts(size, READY);
}

static void wait_of_psend(int size)
{
    send_in_parts(size, WAIT);
}

static void start_of_precv(int size)
{
    receive_in_parts(size, START);
}

static void wait_of_arrived_parts(int size)
{
    receive_in_parts(size, WAIT);
}

static void iprobe_of_none(int size)
{
    int flag;
    (void)size;
    if (rank == 0)
        COUNT(MPI_Iprobe(1, 9, COMM, &flag, MPI_STATUS_IGNORE));
}

static void test_of_none(int size)
{
    MPI_Request request;
    int flag;
    if (rank == 0) {
        MPI_Irecv(data, size, MPI_CHAR, 1, 7, COMM, &request);
        COUNT(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        let_other();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        await_other();
        MPI_Send(data, size, MPI_CHAR, 0, 7, COMM);
        done();
    }
}

static void comm_rank_call(int size)
{
    int mine;
    (void)size;
    if (rank == 0)
        COUNT(MPI_Comm_rank(COMM, &mine));
}

/* Older receives or messages that match something else; the row's size is their number. */
enum { OLD = 1000, UNASKED = 20000, LAST = 999, DEEPEST = 10000 };
static MPI_Request old[DEEPEST];
static char olds[DEEPEST];
static int posted, unexpected;

static void post(int depth)
{
    for (; posted < depth; posted++)
        if (rank == 0)
            MPI_Irecv(&olds[posted], 1, MPI_CHAR, 1, OLD + posted, COMM, &old[posted]);
}

static void unpost(void)
{
    for (; posted > 0; posted--)
        if (rank == 0) {
            MPI_Cancel(&old[posted - 1]);
            MPI_Wait(&old[posted - 1], MPI_STATUS_IGNORE);
        }
}

/* Behind the last of them comes one that is awaited: then they are all here. */
static void send_old(int depth)
{
    int before = unexpected;
    for (; unexpected < depth; unexpected++)
        if (rank == 1)
            MPI_Isend(&olds[unexpected], 1, MPI_CHAR, 0, UNASKED + unexpected, COMM, &old[unexpected]);
    if (before == depth)
        return;
    if (rank == 1)
        MPI_Send(NULL, 0, MPI_CHAR, 0, LAST, COMM);
    else
        MPI_Recv(NULL, 0, MPI_CHAR, 1, LAST, COMM, MPI_STATUS_IGNORE);
}

static void receive_old(void)
{
    int i;
    for (i = 0; rank == 0 && i < unexpected; i++)
        MPI_Recv(&olds[i], 1, MPI_CHAR, 1, UNASKED + i, COMM, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Waitall(unexpected, old, MPI_STATUSES_IGNORE);
    unexpected = 0;
}

/* The message of the youngest receive comes. */
static void wait_behind_posted(int depth)
{
    post(depth);
    wait_of_arrived(8);
}

/* The youngest message is received. */
static void recv_behind_unexpected(int depth)
{
    send_old(depth);
    recv_of_arrived(8);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*one)(int);
        int size;
        int least; /* of the calls, not their mean */
    } rows[] = {
        {"nothing", nothing, 0},          {NAME("MPI_Comm_rank"), comm_rank_call, 0},
        {NAME("MPI_Isend_8"), isend_call, 8},   {NAME("MPI_Wait_of_isend_8"), wait_of_isend, 8},
        {NAME("MPI_Send_8"), send_call, 8},     {NAME("MPI_Send_1024"), send_call, 1024},
        {NAME("MPI_Irecv_8"), irecv_call, 8},   {NAME("MPI_Wait_of_arrived_8"), wait_of_arrived, 8},
        {NAME("MPI_Recv_of_arrived_8"), recv_of_arrived, 8}, {NAME("MPI_Recv_of_arrived_1024"), recv_of_arrived, 1024},
        {NAME("MPI_Iprobe_of_none"), iprobe_of_none, 0},
#ifndef SERIALIZED
        /* Not kept: how long it looks before it sleeps differs. For the part that the watchdog has in it. */
        {"late_" NAME("MPI_Recv_8"), recv_of_late, 8, 1},
#endif
        {NAME("MPI_Irecv_and_Wait_8"), irecv_and_wait, 8}, {NAME("MPI_Irecv_and_Wait_1024"), irecv_and_wait, 1024},
        {NAME("MPI_Waitall_of_64_arrived_8"), waitall_of_arrived, 8},
        {NAME("MPI_Waitall_of_64_isends_8"), waitall_of_isends, 8},
        {NAME("MPI_Test_of_none"), test_of_none, 8},
        {NAME("MPI_Start_of_send_8"), start_of_send, 8}, {NAME("MPI_Start_of_receive_8"), start_of_receive, 8},
        {NAME("MPI_Ibcast_8"), ibcast_call, 8}, {NAME("MPI_Ialltoallv_8"), ialltoallv_call, 8},
        {NAME("MPI_Start_of_bcast_8"), start_of_bcast, 8},
        {NAME("MPI_Start_of_psend_8"), start_of_psend, 8}, {NAME("MPI_Pready_8_of_1"), eight_preadys, 8},
        {NAME("MPI_Pready_8_of_128"), eight_preadys, 1024}, {NAME("MPI_Wait_of_psend_8"), wait_of_psend, 8},
        {NAME("MPI_Start_of_precv_8"), start_of_precv, 8},
        {NAME("MPI_Wait_of_8_parts_of_1"), wait_of_arrived_parts, 8},
        {NAME("MPI_Wait_of_8_parts_of_128"), wait_of_arrived_parts, 1024},
#ifndef LANES
        {NAME("MPI_Bcast_8"), bcast_call, 8}, {NAME("MPI_Reduce_of_arrived_8"), reduce_of_arrived, 8},
        {NAME("MPI_Barrier_of_arrived"), barrier_of_arrived, 0, 1},
        {NAME("MPI_Allreduce_of_arrived_8"), allreduce_of_arrived, 8, 1},
        {NAME("MPI_Start_and_Wait_of_barrier"), persistent_barrier_of_arrived, 0, 1},
        {NAME("MPI_Start_and_Wait_of_allreduce_8"), persistent_allreduce_of_arrived, 8, 1},
        {NAME("MPI_Start_and_Wait_of_allreduce_1024"), persistent_allreduce_of_arrived, 1024, 1},
#endif
        {NAME("MPI_Wait_behind_1_posted"), wait_behind_posted, 1},
        {NAME("MPI_Wait_behind_10_posted"), wait_behind_posted, 10},
        {NAME("MPI_Wait_behind_100_posted"), wait_behind_posted, 100},
        {NAME("MPI_Wait_behind_1000_posted"), wait_behind_posted, 1000},
        {NAME("MPI_Wait_behind_10000_posted"), wait_behind_posted, DEEPEST},
        /* The sender needs budget for all of them (benches/instructions gives it): more would be announced, which is another way. */
        {NAME("MPI_Recv_behind_1_unexpected"), recv_behind_unexpected, 1},
        {NAME("MPI_Recv_behind_10_unexpected"), recv_behind_unexpected, 10},
        {NAME("MPI_Recv_behind_100_unexpected"), recv_behind_unexpected, 100},
        {NAME("MPI_Recv_behind_1000_unexpected"), recv_behind_unexpected, 1000},
        {NAME("MPI_Recv_behind_10000_unexpected"), recv_behind_unexpected, DEEPEST},
    };
    size_t k;
    int i;
#ifdef LANES
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &i);
    if (i != MPI_THREAD_MULTIPLE)
        give_up("instructions: needs MPI_THREAD_MULTIPLE");
    MPI_Comm_dup(MPI_COMM_WORLD, &COMM);
#elif defined SERIALIZED
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &i);
#else
    MPI_Init(&argc, &argv);
#endif
    begin_counting();
#if defined LANES || defined SERIALIZED
    /* A lock gets to know who works with it. */
    for (i = 0; i < 100; i++) {
        send_call(8);
        recv_of_arrived(8);
    }
#endif
    for (k = 0; k < sizeof rows / sizeof *rows; k++) {
        for (i = rows[k].one == send_call ? -LAP : -WARMUP; i < CALLS; i++) {
            if (i == 0)
                CALLGRIND_ZERO_STATS;
            rows[k].one(rows[k].size);
            if (rank == 0 && i >= 0 && rows[k].least)
                dump(rows[k].name, 1);
        }
        /* Not before the last call was counted may anything come that belongs to the next row. */
        if (rank == 0) {
            let_other();
        } else {
            await_other();
            done();
        }
        if (rank == 0 && !rows[k].least)
            dump(rows[k].name, CALLS);
        if (k + 1 == sizeof rows / sizeof *rows || rows[k + 1].one != rows[k].one) {
            unpost();
            receive_old();
            make_partitioned(0);
        }
    }
    if (rank == 0) {
        MPI_Request_free(&persistent_send);
        MPI_Request_free(&persistent_receive);
    }
    MPI_Request_free(&persistent_bcast);
#ifndef LANES
    free_collectives();
#endif
#ifdef LANES
    MPI_Comm_free(&COMM);
#endif
    MPI_Finalize();
    return 0;
}
