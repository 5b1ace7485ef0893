/* Automatic buffering takes whatever is sent, at each of the three levels, and its flush and detach wait until it has been
 * transmitted.
 *
 * Covers: 3.4, 3.6
 * Ranks: 1 2 4
 * [MPICH 5.0.2 loses a message now and then when the three kinds of buffered send are mixed; each kind alone passes.]
 */
#include "check.h"

#define COUNT 300

static int length_of(int i)
{
    return i % 7 == 0 ? 70000 + i : i * 3;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Session session;
    MPI_Comm comm = check_comm_of_session("automatic", &session);
    int rank, size, next, before, got_size;
    char *data = check_alloc(80000);
    void *address;
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    CHECK_OK(MPI_Comm_size(comm, &size));
    next = (rank + 1) % size;
    before = (rank + size - 1) % size;
    for (int level = 0; level < 3; level++) {
        MPI_Request flush, persistent;
        if (level == 0) CHECK_OK(MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0));
        if (level == 1) CHECK_OK(MPI_Session_attach_buffer(session, MPI_BUFFER_AUTOMATIC, -5 + 5));
        if (level == 2) CHECK_OK(MPI_Comm_attach_buffer_c(comm, MPI_BUFFER_AUTOMATIC, 1));
        for (int i = 0; i < COUNT; i++) {
            MPI_Request request;
            fill(data, (size_t)length_of(i), (unsigned)(rank + i));
            if (i % 3 == 0) CHECK_OK(MPI_Bsend(data, length_of(i), MPI_CHAR, next, i, comm));
            if (i % 3 == 1) {
                CHECK_OK(MPI_Ibsend_c(data, length_of(i), MPI_CHAR, next, i, comm, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
            if (i % 3 == 2) {
                CHECK_OK(MPI_Bsend_init(data, length_of(i), MPI_CHAR, next, i, comm, &persistent));
                CHECK_OK(MPI_Start(&persistent));
                CHECK_OK(MPI_Wait(&persistent, MPI_STATUS_IGNORE));
                CHECK_OK(MPI_Request_free(&persistent));
            }
        }
        if (level == 0) CHECK_OK(MPI_Buffer_iflush(&flush));
        if (level == 1) CHECK_OK(MPI_Session_iflush_buffer(session, &flush));
        if (level == 2) CHECK_OK(MPI_Comm_iflush_buffer(comm, &flush));
        for (int i = COUNT - 1; i >= 0; i--) {
            MPI_Status status;
            CHECK_OK(MPI_Recv(data, 80000, MPI_CHAR, before, i, comm, &status));
            CHECK_STATUS(status, before, i, MPI_CHAR, length_of(i));
            CHECK_FILL(data, length_of(i), before + i);
        }
        CHECK_OK(MPI_Wait(&flush, MPI_STATUS_IGNORE));
        if (level == 0) CHECK_OK(MPI_Buffer_detach(&address, &got_size));
        if (level == 1) CHECK_OK(MPI_Session_detach_buffer(session, &address, &got_size));
        if (level == 2) CHECK_OK(MPI_Comm_detach_buffer(comm, &address, &got_size));
        CHECK(address == MPI_BUFFER_AUTOMATIC);
        /* Automatic buffering is over. */
        CHECK_CLASS(MPI_Bsend(data, 80000, MPI_CHAR, next, 0, comm), MPI_ERR_BUFFER);
    }
    free(data);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
