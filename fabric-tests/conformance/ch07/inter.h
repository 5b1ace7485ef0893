/* Intercommunicators for tests: world ranks split by a rule, joined again. */
#ifndef INTER_H
#define INTER_H
#include "check.h"

/* Which side a world rank is on, for several shapes; side 1's ranks run backwards in the last one. */
#define SHAPES 3
static inline int side_of(int rank, int size, int shape)
{
    if (shape == 0) return rank >= (size + 1) / 2;
    if (shape == 1) return rank % 2;
    return rank == 0;
}

static inline int key_of_side(int rank, int shape)
{
    return shape == 2 ? -rank : rank;
}

/* World ranks of a side in the order of their local ranks; their number. */
static inline int members_of(int side, int shape, int *members)
{
    int count = 0;
    for (int r = 0; r < check_size; r++)
        if (side_of(r, check_size, shape) == side) members[count++] = r;
    for (int i = 0; shape == 2 && i < count / 2; i++) {
        int other = members[i];
        members[i] = members[count - 1 - i];
        members[count - 1 - i] = other;
    }
    return count;
}

/* The two sides joined; the leader of each side is its member `leader` (cut to its size). */
static inline MPI_Comm join_sides(int shape, int leader, int tag)
{
    int me = check_rank, mine[64], theirs[64];
    MPI_Comm local, inter = MPI_COMM_NULL;
    int side = side_of(me, check_size, shape);
    int ours = members_of(side, shape, mine), others = members_of(!side, shape, theirs);
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, key_of_side(me, shape), &local));
    int my_leader = leader < ours ? leader : ours - 1, their_leader = theirs[leader < others ? leader : others - 1];
    int rank;
    CHECK_OK(MPI_Comm_rank(local, &rank));
    /* Peer communicator and remote leader are significant at the leaders only. */
    CHECK_OK(MPI_Intercomm_create(local, my_leader, rank == my_leader ? MPI_COMM_WORLD : MPI_COMM_NULL,
                                  rank == my_leader ? their_leader : -77, tag, &inter));
    CHECK_OK(MPI_Comm_free(&local));
    return inter;
}

/* Every member of one side exchanges with every member of the other, by ranks of the remote group. */
static inline void check_traffic(MPI_Comm inter, int tag)
{
    int rank, remote, size;
    CHECK_OK(MPI_Comm_rank(inter, &rank));
    CHECK_OK(MPI_Comm_size(inter, &size));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    int *in = (int *)check_alloc(sizeof(int) * 2 * (size_t)remote), *out = (int *)check_alloc(sizeof(int) * 2 * (size_t)remote);
    MPI_Request *requests = (MPI_Request *)check_alloc(sizeof *requests * 2 * (size_t)remote);
    MPI_Status *statuses = (MPI_Status *)check_alloc(sizeof *statuses * 2 * (size_t)remote);
    for (int r = 0; r < remote; r++) {
        in[2 * r] = in[2 * r + 1] = -1;
        out[2 * r] = rank;
        out[2 * r + 1] = r;
        CHECK_OK(MPI_Irecv(in + 2 * r, 2, MPI_INT, r, tag, inter, &requests[r]));
    }
    for (int r = 0; r < remote; r++) CHECK_OK(MPI_Isend(out + 2 * r, 2, MPI_INT, r, tag, inter, &requests[remote + r]));
    CHECK_OK(MPI_Waitall(2 * remote, requests, statuses));
    for (int r = 0; r < remote; r++) {
        CHECK_INT(in[2 * r], r);
        CHECK_INT(in[2 * r + 1], rank);
        CHECK_STATUS(statuses[r], r, tag, MPI_INT, 2);
    }
    free(in);
    free(out);
    free(requests);
    free(statuses);
}

/* The local and the remote group are these world ranks in this order. */
static inline void check_sides(MPI_Comm inter, const int *mine, int ours, const int *theirs, int others)
{
    int flag = -1, size = -1, remote = -1, rank = -1, result = -1;
    MPI_Group world, local, far, wanted;
    CHECK_OK(MPI_Comm_test_inter(inter, &flag));
    CHECK(flag);
    CHECK_OK(MPI_Comm_size(inter, &size));
    CHECK_OK(MPI_Comm_remote_size(inter, &remote));
    CHECK_OK(MPI_Comm_rank(inter, &rank));
    CHECK_INT(size, ours);
    CHECK_INT(remote, others);
    CHECK(rank >= 0 && rank < ours && mine[rank] == check_rank);
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK_OK(MPI_Comm_group(inter, &local));
    CHECK_OK(MPI_Comm_remote_group(inter, &far));
    CHECK_OK(MPI_Group_incl(world, ours, mine, &wanted));
    CHECK_OK(MPI_Group_compare(local, wanted, &result));
    CHECK_INT(result, MPI_IDENT);
    CHECK_OK(MPI_Group_free(&wanted));
    CHECK_OK(MPI_Group_incl(world, others, theirs, &wanted));
    CHECK_OK(MPI_Group_compare(far, wanted, &result));
    CHECK_INT(result, MPI_IDENT);
    CHECK_OK(MPI_Group_free(&wanted));
    CHECK_OK(MPI_Group_free(&local));
    CHECK_OK(MPI_Group_free(&far));
    CHECK_OK(MPI_Group_free(&world));
}
#endif
