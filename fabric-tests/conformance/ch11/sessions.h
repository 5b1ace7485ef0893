/* What programs of sessions share: a communicator over a process set, and a use of it. Included after check.h. */
#ifndef SESSIONS_H
#define SESSIONS_H

static inline MPI_Comm comm_of_set(MPI_Session session, const char *set, const char *tag)
{
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm comm = MPI_COMM_NULL;
    CHECK_INT(MPI_Group_from_session_pset(session, set, &group), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm), MPI_SUCCESS);
    CHECK_INT(MPI_Group_free(&group), MPI_SUCCESS);
    return comm;
}

/* A sum over everybody, and a message around the ring. */
static inline void use_comm(MPI_Comm comm)
{
    int rank = -1, size = 0, sum = -1, token = -1;
    CHECK_INT(MPI_Comm_rank(comm, &rank), MPI_SUCCESS);
    CHECK_INT(MPI_Comm_size(comm, &size), MPI_SUCCESS);
    CHECK_INT(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
    CHECK_INT(sum, size * (size - 1) / 2);
    CHECK_INT(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 5, &token, 1, MPI_INT, (rank + size - 1) % size, 5, comm,
                           MPI_STATUS_IGNORE),
              MPI_SUCCESS);
    CHECK_INT(token, (rank + size - 1) % size);
}

/* Rank and size for the last line of a program without MPI_COMM_WORLD. */
static inline void check_by(MPI_Comm comm)
{
    MPI_Comm_rank(comm, &check_rank);
    MPI_Comm_size(comm, &check_size);
}

static inline int session_info(MPI_Session session, const char *key, char *value, int room)
{
    MPI_Info used = MPI_INFO_NULL;
    int flag = 0, length = room;
    CHECK_INT(MPI_Session_get_info(session, &used), MPI_SUCCESS);
    CHECK_INT(MPI_Info_get_string(used, key, &length, value, &flag), MPI_SUCCESS);
    CHECK_INT(MPI_Info_free(&used), MPI_SUCCESS);
    return flag;
}

/* Opens a session of MPI_THREAD_MULTIPLE, uses a communicator over everybody some times, and closes it. Where the session gets a lower level it is only opened
 * and closed. */
static inline void use_session(int round, int times)
{
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Info info;
    char level[64] = "", tag[64];
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE"), MPI_SUCCESS);
    CHECK_INT(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), MPI_SUCCESS);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    session_info(session, "thread_level", level, sizeof level);
    if (strcmp(level, "MPI_THREAD_MULTIPLE") == 0) {
        snprintf(tag, sizeof tag, "round %d", round);
        MPI_Comm comm = comm_of_set(session, "mpi://WORLD", tag);
        for (int use = 0; use < times; use++) use_comm(comm);
        CHECK_INT(MPI_Comm_disconnect(&comm), MPI_SUCCESS);
    }
    CHECK_INT(MPI_Session_finalize(&session), MPI_SUCCESS);
}

#endif
