/* Many sessions at once, closed in another order than opened; messages in one do not reach another, and objects that belong to no
 * session (datatypes, operations, error handlers, info objects) serve all and outlive the session they were made under. (MPICH 5.0
 * crashes at the end: its datatypes go with the last session.)
 *
 * Covers: 11.3, 11.3.1, 2.9
 * Ranks: 1 2
 */
#include "check.h"
#include "sessions.h"

#define MANY 24

static void keep_larger(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++)
        if (((int *)in)[i] > ((int *)inout)[i]) ((int *)inout)[i] = ((int *)in)[i];
}

int main(void)
{
    MPI_Session sessions[MANY], last;
    MPI_Comm comms[MANY];
    MPI_Request requests[MANY];
    int got[MANY];
    for (int i = 0; i < MANY; i++) {
        char tag[32];
        snprintf(tag, sizeof tag, "session %d", i);
        CHECK_INT(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &sessions[i]), MPI_SUCCESS);
        for (int k = 0; k < i; k++) CHECK(sessions[k] != sessions[i]);
        comms[i] = comm_of_set(sessions[i], "mpi://WORLD", tag);
    }
    check_by(comms[0]);
    int peer = (check_rank + 1) % check_size, other = (check_rank + check_size - 1) % check_size;
    for (int i = 0; i < MANY; i++)
        CHECK_INT(MPI_Irecv(&got[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comms[i], &requests[i]), MPI_SUCCESS);
    for (int i = MANY - 1; i >= 0; i--) {
        int mine = 1000 * check_rank + i;
        CHECK_INT(MPI_Send(&mine, 1, MPI_INT, peer, 0, comms[i]), MPI_SUCCESS);
    }
    for (int i = 0; i < MANY; i++) {
        CHECK_INT(MPI_Wait(&requests[i], MPI_STATUS_IGNORE), MPI_SUCCESS);
        CHECK_INT(got[i], 1000 * other + i);
    }
    MPI_Datatype pair;
    MPI_Op larger;
    MPI_Errhandler handler;
    MPI_Info info;
    CHECK_INT(MPI_Type_contiguous(2, MPI_INT, &pair), MPI_SUCCESS);
    CHECK_INT(MPI_Type_commit(&pair), MPI_SUCCESS);
    CHECK_INT(MPI_Op_create(keep_larger, 1, &larger), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_get_errhandler(comms[0], &handler), MPI_SUCCESS);
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    for (int i = 0; i < MANY; i++) {
        int at = i * 7 % MANY;
        use_comm(comms[at]);
        CHECK_INT(MPI_Comm_disconnect(&comms[at]), MPI_SUCCESS);
        CHECK_INT(MPI_Session_finalize(&sessions[at]), MPI_SUCCESS);
    }
    /* No session is left; the next one finds the objects as they were. */
    CHECK_INT(MPI_Session_init(info, MPI_ERRORS_RETURN, &last), MPI_SUCCESS);
    MPI_Comm comm = comm_of_set(last, "mpi://WORLD", "the last");
    int two[2] = {check_rank, -check_rank}, back[2] = {-1, -1}, most = -1;
    CHECK_INT(MPI_Sendrecv(two, 1, pair, peer, 1, back, 1, pair, other, 1, comm, MPI_STATUS_IGNORE), MPI_SUCCESS);
    CHECK_INT(back[0], other);
    CHECK_INT(back[1], -other);
    CHECK_INT(MPI_Allreduce(&check_rank, &most, 1, MPI_INT, larger, comm), MPI_SUCCESS);
    CHECK_INT(most, check_size - 1);
    CHECK_INT(MPI_Comm_set_errhandler(comm, handler), MPI_SUCCESS);
    CHECK_INT(MPI_Type_free(&pair), MPI_SUCCESS);
    CHECK_INT(MPI_Op_free(&larger), MPI_SUCCESS);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Errhandler_free(&handler), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    CHECK_INT(MPI_Session_finalize(&last), MPI_SUCCESS);
    return check_verdict();
}
