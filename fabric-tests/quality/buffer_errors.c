/* Attaching twice, detaching or flushing what is not attached, and attaching beside automatic buffering are errors at each
 * of the three levels, named as such; a buffer that is full refuses a send, and the send after a flush is not refused.
 *
 * Covers: 3.6
 * Ranks: 1 2
 */
#include "check.h"

static MPI_Session session;
static MPI_Comm comm;

static int attach(int level, void *buffer, int size)
{
    if (level == 0) return MPI_Buffer_attach(buffer, size);
    if (level == 1) return MPI_Session_attach_buffer(session, buffer, size);
    return MPI_Comm_attach_buffer(comm, buffer, size);
}

static int attach_c(int level, void *buffer, MPI_Count size)
{
    if (level == 0) return MPI_Buffer_attach_c(buffer, size);
    if (level == 1) return MPI_Session_attach_buffer_c(session, buffer, size);
    return MPI_Comm_attach_buffer_c(comm, buffer, size);
}

static int detach(int level, void *buffer, int *size)
{
    if (level == 0) return MPI_Buffer_detach(buffer, size);
    if (level == 1) return MPI_Session_detach_buffer(session, buffer, size);
    return MPI_Comm_detach_buffer(comm, buffer, size);
}

static int detach_c(int level, void *buffer, MPI_Count *size)
{
    if (level == 0) return MPI_Buffer_detach_c(buffer, size);
    if (level == 1) return MPI_Session_detach_buffer_c(session, buffer, size);
    return MPI_Comm_detach_buffer_c(comm, buffer, size);
}

static int flush(int level)
{
    if (level == 0) return MPI_Buffer_flush();
    if (level == 1) return MPI_Session_flush_buffer(session);
    return MPI_Comm_flush_buffer(comm);
}

static int iflush(int level, MPI_Request *request)
{
    if (level == 0) return MPI_Buffer_iflush(request);
    if (level == 1) return MPI_Session_iflush_buffer(session, request);
    return MPI_Comm_iflush_buffer(comm, request);
}

#define FAILS(call) CHECK_CLASS(call, MPI_ERR_BUFFER)

static char space[4096 + MPI_BSEND_OVERHEAD], twin[4096 + MPI_BSEND_OVERHEAD], data[4096];

static void level_of(int level)
{
    char *address = NULL;
    int size = 0, rank, ranks;
    MPI_Count long_size = 0;
    MPI_Request request;
    MPI_Status status;
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    CHECK_OK(MPI_Comm_size(comm, &ranks));

    FAILS(detach(level, &address, &size));
    FAILS(detach_c(level, &address, &long_size));
    FAILS(flush(level));
    FAILS(iflush(level, &request));

    FAILS(attach(level, NULL, 100));
    CHECK_OK(attach(level, space, (int)sizeof space));
    FAILS(attach(level, twin, (int)sizeof twin));
    FAILS(attach_c(level, twin, (MPI_Count)sizeof twin));
    FAILS(attach(level, MPI_BUFFER_AUTOMATIC, 0));
    /* The first is still in force. */
    CHECK_OK(MPI_Bsend(data, sizeof data, MPI_CHAR, rank, 0, comm));
    CHECK_OK(MPI_Recv(data, sizeof data, MPI_CHAR, rank, 0, comm, &status));
    CHECK_OK(flush(level));
    CHECK_OK(MPI_Bsend(data, sizeof data, MPI_CHAR, rank, 0, comm));
    CHECK_OK(MPI_Recv(data, sizeof data, MPI_CHAR, rank, 0, comm, &status));
    CHECK_OK(iflush(level, &request));
    CHECK_OK(MPI_Wait(&request, &status));
    CHECK(request == MPI_REQUEST_NULL);
    CHECK_OK(detach(level, &address, &size));
    CHECK(address == space);
    CHECK_INT(size, sizeof space);
    FAILS(flush(level));

    CHECK_OK(attach_c(level, MPI_BUFFER_AUTOMATIC, 17));
    FAILS(attach(level, space, (int)sizeof space));
    FAILS(attach(level, MPI_BUFFER_AUTOMATIC, 0));
    CHECK_OK(flush(level));
    CHECK_OK(iflush(level, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    address = NULL;
    CHECK_OK(detach_c(level, &address, &long_size));
    CHECK((void *)address == MPI_BUFFER_AUTOMATIC);
    FAILS(detach(level, &address, &size));

    /* A size of 0 is a buffer, too. */
    CHECK_OK(attach(level, space, 0));
    FAILS(MPI_Bsend(data, sizeof data, MPI_CHAR, rank, 0, comm));
    CHECK_OK(flush(level));
    CHECK_OK(detach(level, &address, &size));
    CHECK_INT(size, 0);
    /* What fails needs no buffer: MPI_PROC_NULL never does. */
    CHECK_OK(MPI_Bsend(data, sizeof data, MPI_CHAR, MPI_PROC_NULL, 0, comm));
    FAILS(MPI_Bsend(data, sizeof data, MPI_CHAR, rank, 0, comm));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Group group;
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    CHECK_OK(MPI_Comm_create_from_group(group, "buffers", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    CHECK_OK(MPI_Group_free(&group));
    for (int round = 0; round < 2; round++)
        for (int level = 0; level < 3; level++) level_of(level);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
