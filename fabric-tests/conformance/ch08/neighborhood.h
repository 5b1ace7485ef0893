/* One check of all fifteen neighborhood collectives for a process with given neighbors.
 *
 * Block i for destination i has 1 + i % 3 numbers (v and w forms) or 2 (the others); its numbers tell sender, name of the edge and place. The
 * name of an edge is the same at both ends: names_in[i] for source i, names_out[i] for destination i. */
#ifndef NEIGHBORHOOD_H
#define NEIGHBORHOOD_H

#include "check.h"

enum { MOST_EDGES = 64, UNTOUCHED = -5 };

static inline int number(int sender, int name, int place) { return sender * 10000 + name * 100 + place; }

/* Numbers on an edge: both ends know the name. */
static inline int length_of(int name) { return 1 + name % 3; }

enum { BLOCKING, NONBLOCKING, PERSISTENT };

/* The call in one of its forms; a persistent request is left inactive. */
#define NEIGHBOR(name, ...)                                                                                    \
    do {                                                                                                       \
        if (form == BLOCKING) CHECK_OK(MPI_Neighbor_##name(__VA_ARGS__));                                      \
        else if (form == NONBLOCKING) CHECK_OK(MPI_Ineighbor_##name(__VA_ARGS__, &request));                   \
        else CHECK_OK(MPI_Neighbor_##name##_init(__VA_ARGS__, MPI_INFO_NULL, &request));                       \
    } while (0)

/* To the end: twice when it can be started again. */
static inline void finish_or_wait(int form, MPI_Request *request)
{
    if (form == NONBLOCKING) CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    if (form != PERSISTENT) return;
    for (int run = 0; run < 2; run++) {
        CHECK_OK(MPI_Start(request));
        CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Request_free(request));
}

static inline void check_neighborhood(MPI_Comm comm, int in, const int *sources, const int *names_in, int out,
                                      const int *destinations, const int *names_out, int form)
{
    int me, send[MOST_EDGES * 4], recv[MOST_EDGES * 4];
    int sendcounts[MOST_EDGES], recvcounts[MOST_EDGES], sdispls[MOST_EDGES], rdispls[MOST_EDGES];
    MPI_Aint sbytes[MOST_EDGES], rbytes[MOST_EDGES];
    MPI_Datatype stypes[MOST_EDGES], rtypes[MOST_EDGES], spread;
    MPI_Request request;
    CHECK_OK(MPI_Comm_rank(comm, &me));

    /* Allgather: everybody gets the same. */
    send[0] = number(me, 0, 0), send[1] = number(me, 0, 1);
    for (int i = 0; i < MOST_EDGES * 4; i++) recv[i] = UNTOUCHED;
    NEIGHBOR(allgather, send, 2, MPI_INT, recv, 2, MPI_INT, comm);
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 2; j++)
            CHECK_INT(recv[2 * i + j], sources[i] == MPI_PROC_NULL ? UNTOUCHED : number(sources[i], 0, j));
    CHECK_INT(recv[2 * in], UNTOUCHED);

    /* Allgatherv: blocks in reverse order, with gaps. */
    for (int i = 0; i < in; i++) recvcounts[i] = 2, rdispls[i] = 3 * (in - 1 - i);
    for (int i = 0; i < MOST_EDGES * 4; i++) recv[i] = UNTOUCHED;
    NEIGHBOR(allgatherv, send, 2, MPI_INT, recv, recvcounts, rdispls, MPI_INT, comm);
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 3; j++)
            CHECK_INT(recv[rdispls[i] + j], sources[i] == MPI_PROC_NULL || j == 2 ? UNTOUCHED : number(sources[i], 0, j));

    /* Alltoall. */
    for (int i = 0; i < out; i++)
        for (int j = 0; j < 2; j++) send[2 * i + j] = number(me, names_out[i], j);
    for (int i = 0; i < MOST_EDGES * 4; i++) recv[i] = UNTOUCHED;
    NEIGHBOR(alltoall, send, 2, MPI_INT, recv, 2, MPI_INT, comm);
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 2; j++)
            CHECK_INT(recv[2 * i + j], sources[i] == MPI_PROC_NULL ? UNTOUCHED : number(sources[i], names_in[i], j));
    CHECK_INT(recv[2 * in], UNTOUCHED);

    /* Alltoallv: lengths by edge, blocks at 4 i. */
    for (int i = 0; i < out; i++) {
        sendcounts[i] = length_of(names_out[i]);
        sdispls[i] = 4 * i;
        for (int j = 0; j < sendcounts[i]; j++) send[4 * i + j] = number(me, names_out[i], j);
    }
    for (int i = 0; i < in; i++) recvcounts[i] = length_of(names_in[i]), rdispls[i] = 4 * (in - 1 - i);
    for (int i = 0; i < MOST_EDGES * 4; i++) recv[i] = UNTOUCHED;
    NEIGHBOR(alltoallv, send, sendcounts, sdispls, MPI_INT, recv, recvcounts, rdispls, MPI_INT, comm);
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 4; j++)
            CHECK_INT(recv[rdispls[i] + j], sources[i] == MPI_PROC_NULL || j >= recvcounts[i] ? UNTOUCHED : number(sources[i], names_in[i], j));

    /* Alltoallw: contiguous numbers leave, every second place is filled where they arrive; displacements in bytes. */
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &spread));
    CHECK_OK(MPI_Type_commit(&spread));
    static int wide[MOST_EDGES * 8];
    for (int i = 0; i < out; i++) sbytes[i] = 16 * i, stypes[i] = MPI_INT;
    for (int i = 0; i < in; i++) rbytes[i] = 32 * (in - 1 - i), rtypes[i] = spread;
    for (int i = 0; i < MOST_EDGES * 8; i++) wide[i] = UNTOUCHED;
    NEIGHBOR(alltoallw, send, sendcounts, sbytes, stypes, wide, recvcounts, rbytes, rtypes, comm);
    CHECK_OK(MPI_Type_free(&spread));
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 8; j++) {
            int filled = sources[i] != MPI_PROC_NULL && j % 2 == 0 && j / 2 < recvcounts[i];
            CHECK_INT(wide[8 * (in - 1 - i) + j], filled ? number(sources[i], names_in[i], j / 2) : UNTOUCHED);
        }
    (void)destinations;
}

#endif
