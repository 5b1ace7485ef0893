/* One check of all fifteen neighborhood collectives for a process with given neighbors, with int and with MPI_Count arguments.
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

#define ARGUMENTS(...) __VA_ARGS__

/* The call in one of its forms, with int or MPI_Count arguments; a persistent request is left inactive. */
#define NEIGHBOR(name, ints, counts)                                                                               \
    do {                                                                                                           \
        if (form == BLOCKING && !large) CHECK_OK(MPI_Neighbor_##name(ARGUMENTS ints, comm));                       \
        else if (form == BLOCKING) CHECK_OK(MPI_Neighbor_##name##_c(ARGUMENTS counts, comm));                      \
        else if (form == NONBLOCKING && !large) CHECK_OK(MPI_Ineighbor_##name(ARGUMENTS ints, comm, &request));    \
        else if (form == NONBLOCKING) CHECK_OK(MPI_Ineighbor_##name##_c(ARGUMENTS counts, comm, &request));        \
        else if (!large) CHECK_OK(MPI_Neighbor_##name##_init(ARGUMENTS ints, comm, MPI_INFO_NULL, &request));      \
        else CHECK_OK(MPI_Neighbor_##name##_init_c(ARGUMENTS counts, comm, MPI_INFO_NULL, &request));              \
    } while (0)

/* What the forms with MPI_Count arguments are given: the same numbers. */
static inline void widen(int n, const int *counts, const int *displs, MPI_Count *wide_counts, MPI_Aint *wide_displs)
{
    for (int i = 0; i < n; i++) wide_counts[i] = counts[i], wide_displs[i] = displs[i];
}

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

static inline void check_with(int large, MPI_Comm comm, int in, const int *sources, const int *names_in, int out,
                              const int *names_out, int form)
{
    int me, send[MOST_EDGES * 4], recv[MOST_EDGES * 4];
    int sendcounts[MOST_EDGES], recvcounts[MOST_EDGES], sdispls[MOST_EDGES], rdispls[MOST_EDGES];
    MPI_Aint sbytes[MOST_EDGES], rbytes[MOST_EDGES], sdispls_c[MOST_EDGES], rdispls_c[MOST_EDGES];
    MPI_Count sendcounts_c[MOST_EDGES], recvcounts_c[MOST_EDGES];
    MPI_Datatype stypes[MOST_EDGES], rtypes[MOST_EDGES], spread;
    MPI_Request request;
    CHECK_OK(MPI_Comm_rank(comm, &me));

    /* Allgather: everybody gets the same. */
    send[0] = number(me, 0, 0), send[1] = number(me, 0, 1);
    for (int i = 0; i < MOST_EDGES * 4; i++) recv[i] = UNTOUCHED;
    NEIGHBOR(allgather, (send, 2, MPI_INT, recv, 2, MPI_INT), (send, 2, MPI_INT, recv, 2, MPI_INT));
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 2; j++)
            CHECK_INT(recv[2 * i + j], sources[i] == MPI_PROC_NULL ? UNTOUCHED : number(sources[i], 0, j));
    CHECK_INT(recv[2 * in], UNTOUCHED);

    /* Allgatherv: blocks in reverse order, with gaps. */
    for (int i = 0; i < in; i++) recvcounts[i] = 2, rdispls[i] = 3 * (in - 1 - i);
    for (int i = 0; i < MOST_EDGES * 4; i++) recv[i] = UNTOUCHED;
    widen(in, recvcounts, rdispls, recvcounts_c, rdispls_c);
    NEIGHBOR(allgatherv, (send, 2, MPI_INT, recv, recvcounts, rdispls, MPI_INT),
             (send, 2, MPI_INT, recv, recvcounts_c, rdispls_c, MPI_INT));
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 3; j++)
            CHECK_INT(recv[rdispls[i] + j], sources[i] == MPI_PROC_NULL || j == 2 ? UNTOUCHED : number(sources[i], 0, j));

    /* Alltoall. */
    for (int i = 0; i < out; i++)
        for (int j = 0; j < 2; j++) send[2 * i + j] = number(me, names_out[i], j);
    for (int i = 0; i < MOST_EDGES * 4; i++) recv[i] = UNTOUCHED;
    NEIGHBOR(alltoall, (send, 2, MPI_INT, recv, 2, MPI_INT), (send, 2, MPI_INT, recv, 2, MPI_INT));
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
    widen(in, recvcounts, rdispls, recvcounts_c, rdispls_c);
    widen(out, sendcounts, sdispls, sendcounts_c, sdispls_c);
    NEIGHBOR(alltoallv, (send, sendcounts, sdispls, MPI_INT, recv, recvcounts, rdispls, MPI_INT),
             (send, sendcounts_c, sdispls_c, MPI_INT, recv, recvcounts_c, rdispls_c, MPI_INT));
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
    NEIGHBOR(alltoallw, (send, sendcounts, sbytes, stypes, wide, recvcounts, rbytes, rtypes),
             (send, sendcounts_c, sbytes, stypes, wide, recvcounts_c, rbytes, rtypes));
    CHECK_OK(MPI_Type_free(&spread));
    finish_or_wait(form, &request);
    for (int i = 0; i < in; i++)
        for (int j = 0; j < 8; j++) {
            int filled = sources[i] != MPI_PROC_NULL && j % 2 == 0 && j / 2 < recvcounts[i];
            CHECK_INT(wide[8 * (in - 1 - i) + j], filled ? number(sources[i], names_in[i], j / 2) : UNTOUCHED);
        }
}

static inline void check_neighborhood(MPI_Comm comm, int in, const int *sources, const int *names_in, int out,
                                      const int *destinations, const int *names_out, int form)
{
    (void)destinations;
    for (int large = 0; large < 2; large++) check_with(large, comm, in, sources, names_in, out, names_out, form);
}

#endif
