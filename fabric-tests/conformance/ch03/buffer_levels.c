/* A buffered send uses the buffer of its communicator, else that of the session the communicator derives from, else that
 * of the process, as they are attached when it starts; never two of them together.
 *
 * Covers: 3.6
 * Ranks: 1 2 3
 */
#include "check.h"

#define BYTES 100000
#define ROOM (BYTES + MPI_BSEND_OVERHEAD)
static char data[BYTES], got[BYTES];

struct place {
    MPI_Comm comm;
    int rank, size;
};

static struct place place_of(MPI_Comm comm)
{
    struct place p = {comm, -1, -1};
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    CHECK_OK(MPI_Comm_rank(comm, &p.rank));
    CHECK_OK(MPI_Comm_size(comm, &p.size));
    return p;
}

static void receive(struct place p)
{
    MPI_Status status;
    int before = (p.rank + p.size - 1) % p.size;
    memset(got, 0, BYTES);
    CHECK_OK(MPI_Recv(got, BYTES, MPI_CHAR, before, 5, p.comm, &status));
    CHECK_STATUS(status, before, 5, MPI_CHAR, BYTES);
    CHECK_FILL(got, BYTES, before);
}

/* One message fits and arrives; nobody has received before it is sent. */
static void fits(struct place p)
{
    fill(data, BYTES, (unsigned)p.rank);
    CHECK_OK(MPI_Bsend(data, BYTES, MPI_CHAR, (p.rank + 1) % p.size, 5, p.comm));
    memset(data, 0, BYTES);
    receive(p);
    MPI_Barrier(p.comm);
}

static void full(struct place p)
{
    CHECK_CLASS(MPI_Bsend(data, BYTES, MPI_CHAR, (p.rank + 1) % p.size, 6, p.comm), MPI_ERR_BUFFER);
}

static void *detach_process(int *size)
{
    void *address = NULL;
    CHECK_OK(MPI_Buffer_detach(&address, size));
    return address;
}

/* `kin` derive from `session` (or there is none), `stranger` does not. */
static void levels(struct place *kin, int count, MPI_Session session, struct place stranger)
{
    char *of_process = check_alloc(ROOM), *of_session = check_alloc(ROOM), *of_comm = check_alloc(ROOM), *address;
    char small[16 + MPI_BSEND_OVERHEAD];
    int size;
    MPI_Count long_size;

    /* The process's serves all. */
    CHECK_OK(MPI_Buffer_attach(of_process, ROOM));
    for (int i = 0; i < count; i++) fits(kin[i]);
    fits(stranger);

    if (session != MPI_SESSION_NULL) {
        /* A small one of the session goes before the large one of the process, for kin only. */
        CHECK_OK(MPI_Session_attach_buffer(session, small, sizeof small));
        for (int i = 0; i < count; i++) full(kin[i]);
        fits(stranger);
        CHECK_OK(MPI_Session_detach_buffer(session, &address, &size));
        CHECK(address == small);
        CHECK_INT(size, sizeof small);
        fits(kin[0]);
        CHECK_OK(MPI_Session_attach_buffer_c(session, of_session, ROOM));
    }
    /* A small one of a communicator goes before both; the others do not see it. */
    CHECK_OK(MPI_Comm_attach_buffer(kin[0].comm, small, sizeof small));
    full(kin[0]);
    for (int i = 1; i < count; i++) fits(kin[i]);
    fits(stranger);
    CHECK_OK(MPI_Comm_detach_buffer(kin[0].comm, &address, &size));
    CHECK(address == small);
    CHECK_INT(size, sizeof small);

    /* And a large one before small ones. */
    address = detach_process(&size);
    CHECK(address == of_process);
    CHECK_INT(size, ROOM);
    CHECK_OK(MPI_Buffer_attach_c(small, sizeof small));
    CHECK_OK(MPI_Comm_attach_buffer_c(kin[0].comm, of_comm, ROOM));
    fits(kin[0]);
    full(stranger);
    if (session != MPI_SESSION_NULL) {
        for (int i = 1; i < count; i++) fits(kin[i]);
        CHECK_OK(MPI_Session_flush_buffer(session));
        CHECK_OK(MPI_Session_detach_buffer_c(session, &address, &long_size));
        CHECK(address == of_session);
        CHECK_INT(long_size, ROOM);
    }
    /* The level is chosen when the send starts: now the process's, which is small. */
    for (int i = 1; i < count; i++) full(kin[i]);
    CHECK_OK(MPI_Comm_detach_buffer_c(kin[0].comm, &address, &long_size));
    CHECK(address == of_comm);
    CHECK_INT(long_size, ROOM);
    full(kin[0]);
    address = detach_process(&size);
    CHECK(address == small);

    /* Room is not combined: two halves hold no whole. */
    CHECK_OK(MPI_Buffer_attach(of_process, BYTES / 2));
    CHECK_OK(MPI_Comm_attach_buffer(kin[0].comm, of_comm, BYTES / 2));
    full(kin[0]);
    CHECK_OK(MPI_Comm_detach_buffer(kin[0].comm, &address, &size));
    detach_process(&size);
    MPI_Barrier(stranger.comm);
    free(of_process);
    free(of_session);
    free(of_comm);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Session session, other;
    MPI_Group all, part;
    MPI_Comm comms[4], foreign;
    int zero[3][3] = {{0, check_size - 1, 1}};
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &other));
    /* Direct, by a duplicate, by a split, and by a group made from the set's group. */
    CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &all));
    CHECK_OK(MPI_Comm_create_from_group(all, "direct", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[0]));
    CHECK_OK(MPI_Comm_dup(comms[0], &comms[1]));
    CHECK_OK(MPI_Comm_split(comms[1], 0, -check_rank, &comms[2]));
    CHECK_OK(MPI_Group_range_incl(all, 1, zero, &part));
    CHECK_OK(MPI_Comm_create_from_group(part, "part", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comms[3]));
    CHECK_OK(MPI_Group_free(&all));
    CHECK_OK(MPI_Group_free(&part));
    CHECK_OK(MPI_Group_from_session_pset(other, "mpi://WORLD", &all));
    CHECK_OK(MPI_Comm_create_from_group(all, "other", MPI_INFO_NULL, MPI_ERRORS_RETURN, &foreign));
    CHECK_OK(MPI_Group_free(&all));

    struct place kin[4], world = place_of(MPI_COMM_WORLD), stranger = place_of(foreign);
    for (int i = 0; i < 4; i++) kin[i] = place_of(comms[i]);
    levels(kin, 4, session, world);
    levels(kin, 4, session, stranger);
    levels(&stranger, 1, other, kin[2]);
    levels(&world, 1, MPI_SESSION_NULL, kin[0]);

    for (int i = 0; i < 4; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    CHECK_OK(MPI_Comm_free(&foreign));
    CHECK_OK(MPI_Session_finalize(&session));
    CHECK_OK(MPI_Session_finalize(&other));
    return check_end();
}
