/* Programs that hang, and programs that only look as if they did, for the watchdog (tests/watchdog.rs).
 * The first argument says which. What lives ends by itself and prints "over". */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

static void receive(int source, int tag, MPI_Comm comm) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, source, tag, comm, MPI_STATUS_IGNORE);
}

static void give(int dest, int tag, MPI_Comm comm) {
    MPI_Send(&rank, 1, MPI_INT, dest, tag, comm);
}

/* Uses the processor without calling MPI. */
static void compute(double seconds) {
    double begun = MPI_Wtime();
    volatile unsigned turns = 0;
    while (MPI_Wtime() - begun < seconds)
        for (int i = 0; i < 1000; i++) turns++;
}

/* Everybody receives from the next rank. */
static void circle(void) { receive((rank + 1) % size, 5, MPI_COMM_WORLD); }

static void ssends(void) {
    MPI_Ssend(&rank, 1, MPI_INT, 1 - rank, 7, MPI_COMM_WORLD);
    receive(1 - rank, 7, MPI_COMM_WORLD);
}

/* Rank 1 sends tag 8, rank 0 wants tag 3; then both want something of each other. */
static void tag(void) {
    if (rank == 0) {
        receive(1, 3, MPI_COMM_WORLD);
    } else {
        give(0, 8, MPI_COMM_WORLD);
        receive(0, 4, MPI_COMM_WORLD);
    }
}

static void finalized(void) {
    if (rank == 0) receive(1, 2, MPI_COMM_WORLD);
}

/* Nonblocking collectives by shared memory, where there is such a thing: the last rank does something else. */
static void later_with(void (*last)(void)) {
    MPI_Request requests[2];
    int sum;
    for (int i = 0; i < 4; i++) MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) last();
    MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
}

static void receive_nothing(void) { receive(0, 9, MPI_COMM_WORLD); }
static void compute_long(void) { compute(4); }
static void later(void) { later_with(receive_nothing); }
static void live_later(void) { later_with(compute_long); }

/* The last rank waits for a message where the others meet. */
static void absent(void) {
    if (rank == size - 1)
        receive(0, 9, MPI_COMM_WORLD);
    else
        MPI_Barrier(MPI_COMM_WORLD);
}

static void different(void) {
    int value = 1, sum;
    if (rank == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        MPI_Gather(&value, 1, MPI_INT, &sum, 1, MPI_INT, 1, MPI_COMM_WORLD);
    receive(1 - rank, 1, MPI_COMM_WORLD);
}

static void wildcard(void) { receive(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD); }

static void waitall(void) {
    int values[3];
    MPI_Request requests[3];
    int other = 1 - rank;
    give(other, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 3; i++) MPI_Irecv(&values[i], 1, MPI_INT, other, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
}

static void waitany(void) {
    int values[2], index;
    MPI_Request requests[2];
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&values[i], 1, MPI_INT, 1 - rank, i, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
}

static void probe(void) {
    MPI_Status status;
    MPI_Probe(1 - rank, 6, MPI_COMM_WORLD, &status);
}

static void split(void) {
    MPI_Comm other;
    if (rank == 0)
        MPI_Comm_dup(MPI_COMM_WORLD, &other);
    else
        receive(0, 1, MPI_COMM_WORLD);
}

static void window(void) {
    MPI_Win win;
    int cell = 0;
    MPI_Win_create(&cell, sizeof cell, sizeof cell, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
        MPI_Barrier(MPI_COMM_WORLD);
        receive(1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, win);
    }
}

static void named(void) {
    MPI_Comm row;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &row);
    MPI_Comm_set_name(row, "row");
    int mine;
    MPI_Comm_rank(row, &mine);
    receive(1 - mine, 5, row);
}

static void partitioned(void) {
    int values[4];
    MPI_Request request;
    MPI_Precv_init(values, 4, 1, MPI_INT, 1 - rank, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Both have said that all is ready, and neither has begun to receive. */
static void partitioned_sends(void) {
    int values[4] = {0};
    MPI_Comm row;
    MPI_Request request;
    MPI_Comm_dup(MPI_COMM_WORLD, &row);
    MPI_Comm_set_name(row, "row");
    MPI_Psend_init(values, 4, 1, MPI_INT, 1 - rank, 3, row, MPI_INFO_NULL, &request);
    MPI_Start(&request);
    MPI_Pready_range(0, 3, request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void *blocked_thread(void *at) {
    receive(1 - rank, 20 + *(int *)at, MPI_COMM_WORLD);
    return NULL;
}

static void threads(void) {
    pthread_t thread;
    int number = 1;
    pthread_create(&thread, NULL, blocked_thread, &number);
    receive(1 - rank, 20, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
}

static void *working_thread(void *at) {
    (void)at;
    sleep(5);
    give(1 - rank, 20, MPI_COMM_WORLD);
    return NULL;
}

/* Both main threads are blocked, and another thread of each will help. */
static void live_thread(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, working_thread, NULL);
    receive(1 - rank, 20, MPI_COMM_WORLD);
    pthread_join(thread, NULL);
}

/* Buffered messages that nobody receives keep the buffer. */
static void flush(void) {
    static char message[200000], buffer[300000];
    void *address;
    int length;
    MPI_Buffer_attach(buffer, sizeof buffer);
    MPI_Bsend(message, sizeof message, MPI_BYTE, 1 - rank, 5, MPI_COMM_WORLD);
    MPI_Buffer_detach(&address, &length);
}

static void flush_request(void) {
    static char message[200000], buffer[600000];
    MPI_Request request;
    MPI_Buffer_attach(buffer, sizeof buffer);
    MPI_Bsend(message, sizeof message, MPI_BYTE, 1 - rank, 5, MPI_COMM_WORLD);
    MPI_Bsend(message, sizeof message, MPI_BYTE, 1 - rank, 6, MPI_COMM_WORLD);
    MPI_Buffer_iflush(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The same, with threads and in a lane, and the receiver is late. */
static void live_flush_request_thread(void) {
    static char message[200000], buffer[300000];
    MPI_Request request;
    MPI_Comm lane;
    void *address;
    int length;
    MPI_Comm_dup(MPI_COMM_WORLD, &lane);
    if (rank == 0) {
        MPI_Comm_attach_buffer(lane, buffer, sizeof buffer);
        MPI_Bsend(message, sizeof message, MPI_BYTE, 1, 5, lane);
        MPI_Comm_iflush_buffer(lane, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Comm_detach_buffer(lane, &address, &length);
    } else {
        sleep(4);
        MPI_Recv(message, sizeof message, MPI_BYTE, 0, 5, lane, MPI_STATUS_IGNORE);
    }
    MPI_Comm_free(&lane);
}

static MPI_Comm of_session(MPI_Session *session) {
    MPI_Group group;
    MPI_Comm comm;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, session);
    MPI_Group_from_session_pset(*session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "watchdog", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Group_free(&group);
    return comm;
}

/* The World Model is over everywhere, and rank 0 waits in a session for rank 1, which works. */
static void live_session(void) {
    MPI_Session session;
    MPI_Comm comm = of_session(&session);
    MPI_Finalize();
    if (rank == 1) sleep(5);
    MPI_Barrier(comm);
    MPI_Comm_disconnect(&comm);
    MPI_Session_finalize(&session);
}

/* As above, with a session that begins after the end of the World Model. */
static void live_new_session(void) {
    MPI_Session session;
    MPI_Finalize();
    MPI_Comm comm = of_session(&session);
    if (rank == 1) sleep(5);
    MPI_Barrier(comm);
    MPI_Comm_disconnect(&comm);
    MPI_Session_finalize(&session);
}

static int complete_query(void *extra, MPI_Status *status) {
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int nothing_to_free(void *extra) {
    (void)extra;
    return MPI_SUCCESS;
}

static int nothing_to_cancel(void *extra, int complete) {
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static MPI_Request generalized_request;

static void start_generalized(void) {
    MPI_Grequest_start(complete_query, nothing_to_free, nothing_to_cancel, NULL, &generalized_request);
}

/* Rank 0 waits for what only its own program can complete, and that is blocked there; rank 1 waits for rank 0. */
static void generalized(void) {
    if (rank == 0) {
        start_generalized();
        MPI_Wait(&generalized_request, MPI_STATUS_IGNORE);
        give(1, 5, MPI_COMM_WORLD);
    } else {
        receive(0, 5, MPI_COMM_WORLD);
    }
}

/* Any of a generalized request and a message would do, and neither comes. */
static void generalized_any(void) {
    int value, index;
    MPI_Request requests[2];
    start_generalized();
    requests[0] = generalized_request;
    MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
}

static void *completing_thread(void *at) {
    MPI_Request same = generalized_request;
    (void)at;
    sleep(5);
    MPI_Grequest_complete(same);
    return NULL;
}

/* Both wait for requests that another thread of theirs completes. */
static void live_generalized_thread(void) {
    pthread_t thread;
    start_generalized();
    MPI_Request request = generalized_request;
    pthread_create(&thread, NULL, completing_thread, NULL);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    pthread_join(thread, NULL);
}

/* A generalized request that nobody completes, and a message that comes. */
static void live_generalized_any(void) {
    int value, index;
    MPI_Request requests[2];
    if (rank == 1) sleep(5);
    if (rank == 1) give(0, 5, MPI_COMM_WORLD);
    if (rank == 0) {
        start_generalized();
        requests[0] = generalized_request;
        MPI_Irecv(&value, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
        MPI_Grequest_complete(generalized_request);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
}

/* Receives that nobody answers are under way on a communicator that is to be disconnected. */
static void disconnect(void) {
    MPI_Comm comm;
    MPI_Request request;
    int value;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Irecv(&value, 1, MPI_INT, 1 - rank, 5, comm, &request);
    MPI_Request_free(&request);
    MPI_Comm_disconnect(&comm);
}

/* The message comes, late, and so does the other rank. */
static void live_disconnect(void) {
    MPI_Comm comm;
    MPI_Request request;
    int value;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (rank == 0) MPI_Irecv(&value, 1, MPI_INT, 1, 5, comm, &request);
    if (rank == 0) MPI_Request_free(&request);
    if (rank == 1) sleep(5);
    if (rank == 1) give(0, 5, comm);
    MPI_Comm_disconnect(&comm);
}

/* Rank 0 makes a communicator from a group; rank 1 does not come. */
static void from_group(void) {
    MPI_Session session;
    if (rank == 0)
        of_session(&session);
    else
        receive(0, 5, MPI_COMM_WORLD);
}

/* Rank 1 has ended MPI and begins it again, in a session, for which rank 0 waits. */
static void live_late_session(void) {
    MPI_Session session;
    MPI_Finalize();
    if (rank == 1) sleep(5);
    MPI_Comm comm = of_session(&session);
    MPI_Comm_disconnect(&comm);
    MPI_Session_finalize(&session);
}

/* Sends that nobody receives keep sessions open. */
static void session_end(void) {
    MPI_Session session;
    MPI_Comm comm = of_session(&session);
    MPI_Request request;
    MPI_Issend(&rank, 1, MPI_INT, 1 - rank, 5, comm, &request);
    MPI_Request_free(&request);
    MPI_Session_finalize(&session);
}

/* The send is received, late. */
static void live_session_end(void) {
    MPI_Session session;
    MPI_Comm comm = of_session(&session);
    MPI_Request request;
    if (rank == 0) MPI_Issend(&rank, 1, MPI_INT, 1, 5, comm, &request);
    if (rank == 0) MPI_Request_free(&request);
    if (rank == 1) sleep(5);
    if (rank == 1) receive(0, 5, comm);
    MPI_Session_finalize(&session);
}

static void live_compute(void) {
    if (rank == 0) compute(5);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void live_sleep(void) {
    if (rank == 0) sleep(5);
    if (rank > 0) receive(rank - 1, 0, MPI_COMM_WORLD);
    give((rank + 1) % size, 0, MPI_COMM_WORLD);
    if (rank == 0) receive(size - 1, 0, MPI_COMM_WORLD);
}

/* As in a debugger: rank 0 stands still for a while, after it and all others have been blocked for long. */
static void live_stopped(void) {
    if (rank == 0) {
        if (fork() == 0) {
            pid_t parent = getppid();
            sleep(1);
            kill(parent, SIGSTOP);
            sleep(4);
            kill(parent, SIGCONT);
            _exit(0);
        }
        for (double begun = MPI_Wtime(); MPI_Wtime() - begun < 5;) usleep(1000);
        for (int other = 1; other < size; other++) give(other, 0, MPI_COMM_WORLD);
    } else {
        receive(0, 0, MPI_COMM_WORLD);
    }
}

/* Rank 0 polls. */
static void live_test(void) {
    int value, flag = 0;
    if (rank == 0) {
        MPI_Request request;
        MPI_Irecv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        double begun = MPI_Wtime();
        while (!flag && MPI_Wtime() - begun < 5) MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
        give(1, 1, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        receive(0, 1, MPI_COMM_WORLD);
        give(0, 0, MPI_COMM_WORLD);
    }
}

/* Rank 0 is blocked for rank 2, which is blocked in a barrier for a message that rank 0's nonblocking barrier will send by itself once
 * the computing rank 1 has come: by the calls alone a circle, and no deadlock. */
static void live_background(void) {
    MPI_Request request;
    if (rank == 0) {
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        receive(2, 0, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        if (rank == 1) sleep(5);
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 2) give(0, 0, MPI_COMM_WORLD);
    }
}

/* Rank 1 waits for a lock of rank 0's window that rank 2 holds; rank 0 is blocked for rank 1, but its window is served. */
static void live_lock(void) {
    MPI_Win win;
    int cell = 0;
    MPI_Win_create(&cell, sizeof cell, sizeof cell, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    if (rank == 2) MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) receive(1, 0, MPI_COMM_WORLD);
    if (rank == 1) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        MPI_Win_unlock(0, win);
        give(0, 0, MPI_COMM_WORLD);
    }
    if (rank == 2) {
        sleep(5);
        MPI_Win_unlock(0, win);
    }
    MPI_Win_free(&win);
}

static const struct {
    const char *name;
    void (*run)(void);
} PROGRAMS[] = {
    {"circle", circle}, {"ssends", ssends}, {"tag", tag}, {"finalized", finalized}, {"absent", absent},
    {"different", different}, {"wildcard", wildcard}, {"waitall", waitall}, {"waitany", waitany}, {"probe", probe},
    {"dup", split}, {"window", window}, {"named", named}, {"partitioned", partitioned}, {"threads", threads},
    {"flush", flush}, {"partitioned_sends", partitioned_sends}, {"flush_request", flush_request},
    {"live_flush_request_thread", live_flush_request_thread}, {"generalized", generalized}, {"generalized_any", generalized_any}, {"disconnect", disconnect},
    {"from_group", from_group}, {"session_end", session_end}, {"live_generalized_thread", live_generalized_thread},
    {"live_generalized_any", live_generalized_any}, {"live_disconnect", live_disconnect},
    {"live_late_session", live_late_session}, {"live_session_end", live_session_end}, {"live_session", live_session}, {"live_new_session", live_new_session},
    {"live_thread", live_thread}, {"live_compute", live_compute}, {"live_sleep", live_sleep},
    {"live_stopped", live_stopped}, {"live_test", live_test}, {"live_background", live_background},
    {"live_lock", live_lock}, {"later", later}, {"live_later", live_later},
};

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    int level = strstr(name, "thread") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided;
    MPI_Init_thread(&argc, &argv, level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++)
        if (strcmp(PROGRAMS[i].name, name) == 0) {
            PROGRAMS[i].run();
            int finalized;
            MPI_Finalized(&finalized);
            if (!finalized) MPI_Finalize();
            printf("over\n");
            return 0;
        }
    fprintf(stderr, "no program %s\n", name);
    MPI_Abort(MPI_COMM_WORLD, 2);
}
