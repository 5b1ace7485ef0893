/* A receive that is listed again and again, and whose send has started, succeeds in the end, however many others in the list are
 * complete at each call; and so does a send. MPI_Waitsome, MPI_Testsome and MPI_Request_get_status_some, in MPI_COMM_WORLD and in a
 * communicator of its own.
 *
 * The others never run dry: each that completes is there again at the next call. So a call that stops at the first it finds, that
 * prefers some place in the list, or that makes no progress because it has found something, never gets to the one that is looked at.
 *
 * Included after check.h by the programs of one thread and of several.
 */
enum { LISTED = 6, CALLS = 2000, BIG = 300000 };

enum call { WAITSOME, TESTSOME, GET_STATUS_SOME };

static MPI_Comm comm;
static int values[LISTED], sent[LISTED];
static char *out, *in;

/* A receive that is complete when it is looked at: the message is one to oneself. */
static void busy(int place, MPI_Request *request)
{
    MPI_Request send;
    values[place] = -1;
    sent[place]++;
    CHECK_OK(MPI_Irecv(&values[place], 1, MPI_INT, check_rank, place, comm, request));
    CHECK_OK(MPI_Isend(&sent[place], 1, MPI_INT, check_rank, place, comm, &send));
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

/* `place` holds a receive of a message of the neighbour, or a send to it; every other place is busy. */
static void one_among_busy(enum call call, int place, int length, int is_send)
{
    MPI_Request requests[LISTED], other;
    MPI_Status statuses[LISTED];
    int indices[LISTED], count = 0, served = 0, next = (check_rank + 1) % check_size, before = (check_rank + check_size - 1) % check_size;
    fill(out, (size_t)length, (unsigned)(place + length));
    memset(in, 0, (size_t)length);
    if (is_send) {
        CHECK_OK(MPI_Issend(out, length, MPI_CHAR, next, 99, comm, &requests[place]));
        CHECK_OK(MPI_Irecv(in, length, MPI_CHAR, before, 99, comm, &other));
    } else {
        CHECK_OK(MPI_Irecv(in, length, MPI_CHAR, before, 99, comm, &requests[place]));
        CHECK_OK(MPI_Issend(out, length, MPI_CHAR, next, 99, comm, &other));
    }
    for (int i = 0; i < LISTED; i++)
        if (i != place) busy(i, &requests[i]);
    for (long calls = 0; !served; calls++) {
        if (call == WAITSOME) CHECK_OK(MPI_Waitsome(LISTED, requests, &count, indices, statuses));
        if (call == TESTSOME) CHECK_OK(MPI_Testsome(LISTED, requests, &count, indices, statuses));
#if MPI_41
        if (call == GET_STATUS_SOME) CHECK_OK(MPI_Request_get_status_some(LISTED, requests, &count, indices, statuses));
#endif
        CHECK(count != MPI_UNDEFINED);
        for (int k = 0; k < count; k++) {
            int i = indices[k];
            if (i == place) {
                served = 1;
                continue;
            }
            CHECK_STATUS(statuses[k], check_rank, i, MPI_INT, 1);
            CHECK_INT(values[i], sent[i]);
            /* The other calls leave it as it is: complete. */
            if (call != GET_STATUS_SOME) busy(i, &requests[i]);
        }
        /* The neighbour may be far behind; it must have had its turn after so many calls and some time. */
        if (calls > CALLS) usleep(1000);
        if (calls > 30 * CALLS) {
            CHECK_FAIL("call %d, place %d, length %d: never served in %ld calls", (int)call, place, length, calls);
            MPI_Abort(MPI_COMM_WORLD, 99);
        }
    }
    if (call == GET_STATUS_SOME) CHECK_OK(MPI_Wait(&requests[place], MPI_STATUS_IGNORE));
    CHECK(requests[place] == MPI_REQUEST_NULL);
    CHECK_OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
    CHECK_FILL(in, length, place + length);
    CHECK_OK(MPI_Waitall(LISTED, requests, MPI_STATUSES_IGNORE));
}

static void all_are_served(void)
{
    static const int lengths[] = {1, 5000, BIG};
    out = check_alloc(BIG);
    in = check_alloc(BIG);
    for (int own = 0; own < 2; own++) {
        comm = MPI_COMM_WORLD;
        if (own) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int call = 0; call < (MPI_41 ? 3 : 2); call++)
            for (int place = 0; place < LISTED; place += LISTED - 1)
                for (int l = 0; l < 3; l++)
                    for (int is_send = 0; is_send < 2; is_send++) one_among_busy((enum call)call, place, lengths[l], is_send);
        if (own) CHECK_OK(MPI_Comm_free(&comm));
    }
    free(out);
    free(in);
}
