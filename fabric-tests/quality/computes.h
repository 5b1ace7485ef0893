/* Steps in which one process computes for the other to go on, without a call of MPI. Whether it does is told by memory that both share,
 * beside MPI. */
#ifndef COMPUTES_H
#define COMPUTES_H

#ifndef _GNU_SOURCE
#error "_GNU_SOURCE comes before all headers"
#endif
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGES = 12, PATIENCE = 10 /* seconds */ };
static volatile int *done; /* one word for each step */

/* Rank 0 tells rank 1 by which name its memory is reached. */
static inline void share(void)
{
    int where[2] = {0, -1}, fd;
    char path[64];
    if (check_rank == 0) {
        where[0] = (int)getpid();
        where[1] = fd = memfd_create("done", 0);
        CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
        CHECK_OK(MPI_Send(where, 2, MPI_INT, 1, 99, MPI_COMM_WORLD));
    } else {
        CHECK_OK(MPI_Recv(where, 2, MPI_INT, 0, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
        fd = open(path, O_RDWR);
    }
    done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(done != MAP_FAILED);
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The other has done its part of a step: what is computed for. */
static inline void compute(int step)
{
    const struct timespec nap = {0, 1000000};
    for (int turn = 0; turn < PATIENCE * 1000 && !done[step]; turn++) nanosleep(&nap, NULL);
    if (!done[step]) fprintf(stderr, "step %d: the other has not gone on\n", step);
    CHECK(done[step]);
}

static inline void has_gone_on(int step)
{
    done[step] = 1;
}

static inline void receive_all(int step, MPI_Request *requests, int *values, MPI_Comm comm)
{
    for (int i = 0; i < MESSAGES; i++) CHECK_OK(MPI_Irecv(&values[i], 1, MPI_INT, 0, step, comm, &requests[i]));
    CHECK_OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES; i++) CHECK_INT(values[i], i);
}

/* All steps in a communicator, from number `step` on; the next number. */
static inline int steps_in(MPI_Comm comm, int step)
{
    MPI_Request requests[MESSAGES], persistent[MESSAGES];
    int values[MESSAGES], flag;

    /* Answers, of receives that come first or second, by several kinds of calls. */
    for (int late = 0; late < 4; late++, step++) {
        if (check_rank == 0) {
            for (int i = 0; i < MESSAGES; i++) {
                values[i] = i;
                CHECK_OK(MPI_Issend(&values[i], 1, MPI_INT, 1, step, comm, &requests[i]));
            }
            if (late) CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 1, 50, comm));
            CHECK_OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
            has_gone_on(step);
        } else {
            if (late) CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 0, 50, comm, MPI_STATUS_IGNORE));
            if (late < 2) receive_all(step, requests, values, comm);
            for (int i = 0; i < MESSAGES && late == 2; i++)
                CHECK_OK(MPI_Recv(&values[i], 1, MPI_INT, 0, step, comm, MPI_STATUS_IGNORE));
            for (int i = 0; i < MESSAGES && late == 3; i++) {
                MPI_Message message;
                CHECK_OK(MPI_Mprobe(0, step, comm, &message, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Mrecv(&values[i], 1, MPI_INT, &message, MPI_STATUS_IGNORE));
            }
            compute(step);
        }
        CHECK_OK(MPI_Barrier(comm));
    }

    /* Messages of calls that are over: sent, begun and waited for, begun and tested, persistent ones, those of a broadcast. */
    for (int way = 0; way < 5; way++, step++) {
        for (int i = 0; i < MESSAGES; i++) values[i] = check_rank == 0 ? i : -1;
        if (check_rank == 0) {
            for (int i = 0; i < MESSAGES; i++) {
                if (way == 0) CHECK_OK(MPI_Send(&values[i], 1, MPI_INT, 1, step, comm));
                if (way == 1 || way == 2)
                    CHECK_OK(MPI_Isend(&values[i], 1, MPI_INT, 1, step, comm, &requests[i]));
                if (way == 3) CHECK_OK(MPI_Send_init(&values[i], 1, MPI_INT, 1, step, comm, &persistent[i]));
                if (way == 4) CHECK_OK(MPI_Bcast(&values[i], 1, MPI_INT, 0, comm));
            }
            if (way == 1) CHECK_OK(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
            for (int i = 0; i < MESSAGES && way == 2; i++)
                do CHECK_OK(MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE));
                while (!flag);
            if (way == 3) {
                CHECK_OK(MPI_Startall(MESSAGES, persistent));
                for (int i = 0; i < MESSAGES; i++) CHECK_OK(MPI_Wait(&persistent[i], MPI_STATUS_IGNORE));
            }
            compute(step);
            for (int i = 0; i < MESSAGES && way == 3; i++) CHECK_OK(MPI_Request_free(&persistent[i]));
        } else {
            if (way < 4) receive_all(step, requests, values, comm);
            for (int i = 0; i < MESSAGES && way == 4; i++) {
                CHECK_OK(MPI_Bcast(&values[i], 1, MPI_INT, 0, comm));
                CHECK_INT(values[i], i);
            }
            has_gone_on(step);
        }
        CHECK_OK(MPI_Barrier(comm));
    }

    /* A few that were only begun. */
    if (check_rank == 0) {
        for (int i = 0; i < 3; i++) {
            values[i] = i;
            CHECK_OK(MPI_Isend(&values[i], 1, MPI_INT, 1, step, comm, &requests[i]));
        }
        compute(step);
        CHECK_OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    } else {
        for (int i = 0; i < 3; i++) CHECK_OK(MPI_Recv(&values[i], 1, MPI_INT, 0, step, comm, MPI_STATUS_IGNORE));
        has_gone_on(step);
    }
    step++;
    return step;
}

#endif
