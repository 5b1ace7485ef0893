/* Detaching waits until what is in the buffer has been transmitted: the memory is the program's again, and what it writes there then
 * is not in the messages. At each of the three levels, sizes of all protocols, the receives started before or by the others meanwhile.
 *
 * Covers: 3.6
 * Ranks: 1 2 3
 */
#include "check.h"

enum { MESSAGES = 12, BIG = 150000 };

static int length_of(int i)
{
    static const int lengths[] = {0, 1, 100, 4000, 20000, BIG};
    return lengths[i % 6];
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Session session;
    MPI_Comm comm = check_comm_of_session("given back", &session);
    int rank, ranks, room = 0;
    CHECK_OK(MPI_Comm_rank(comm, &rank));
    CHECK_OK(MPI_Comm_size(comm, &ranks));
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    char *data = check_alloc(BIG), *in[MESSAGES], *space, *address;
    for (int i = 0; i < MESSAGES; i++) {
        int packed;
        in[i] = check_alloc(BIG);
        CHECK_OK(MPI_Pack_size(length_of(i), MPI_CHAR, comm, &packed));
        room += packed + MPI_BSEND_OVERHEAD;
    }
    space = check_alloc((size_t)room);
    for (int level = 0; level < 3; level++)
        for (int late = 0; late < 2; late++) {
            MPI_Request receives[MESSAGES];
            int size = 0;
            for (int i = 0; i < MESSAGES; i++) memset(in[i], 0, BIG);
            if (level == 0) CHECK_OK(MPI_Buffer_attach(space, room));
            if (level == 1) CHECK_OK(MPI_Session_attach_buffer(session, space, room));
            if (level == 2) CHECK_OK(MPI_Comm_attach_buffer(comm, space, room));
            /* Half of the receives before the sends, half after. */
            for (int i = late; i < MESSAGES; i += 2)
                CHECK_OK(MPI_Irecv(in[i], BIG, MPI_CHAR, before, i, comm, &receives[i]));
            for (int i = 0; i < MESSAGES; i++) {
                fill(data, (size_t)length_of(i), (unsigned)(100 * rank + i));
                CHECK_OK(MPI_Bsend(data, length_of(i), MPI_CHAR, next, i, comm));
            }
            for (int i = 1 - late; i < MESSAGES; i += 2)
                CHECK_OK(MPI_Irecv(in[i], BIG, MPI_CHAR, before, i, comm, &receives[i]));
            /* All receives have started here, and the others are on their way into this call. */
            if (level == 0) CHECK_OK(MPI_Buffer_detach(&address, &size));
            if (level == 1) CHECK_OK(MPI_Session_detach_buffer(session, &address, &size));
            if (level == 2) CHECK_OK(MPI_Comm_detach_buffer(comm, &address, &size));
            CHECK(address == space);
            CHECK_INT(size, room);
            memset(space, 0xEE, (size_t)room);
            memset(data, 0xDD, BIG);
            CHECK_OK(MPI_Waitall(MESSAGES, receives, MPI_STATUSES_IGNORE));
            for (int i = 0; i < MESSAGES; i++) CHECK_FILL(in[i], length_of(i), 100 * before + i);
        }
    for (int i = 0; i < MESSAGES; i++) free(in[i]);
    free(space);
    free(data);
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Session_finalize(&session));
    return check_end();
}
