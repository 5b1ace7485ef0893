/* MPI_Comm_free marks only: sends and receives under way, persistent and partitioned requests that are inactive, and a nonblocking
 * collective go on working after it, while hundreds of new communicators are made: none of them gets the old one's channel.
 *
 * Covers: 7.4.3, 2.5.1, 3.9, 4.2
 * Ranks: 2 3
 * Timeout: 120
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int me = check_rank, n = check_size, next = (me + 1) % n, before = (me + n - 1) % n;
    enum { large = 300000 };
    unsigned char *out = check_alloc(large), *in = check_alloc(large);
    for (int round = 0; round < 20; round++) {
        MPI_Comm comm, others[30];
        MPI_Request requests[2], persistent[2], parts[2], sum_request;
        int sum = 0, sent = 100 * round + me, got = -1, part_out = me, part_in = -1;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        fill(out, large, (unsigned)(round * 10 + me));
        CHECK_OK(MPI_Irecv(in, large, MPI_BYTE, before, 1, comm, &requests[0]));
        CHECK_OK(MPI_Send_init(&sent, 1, MPI_INT, next, 2, comm, &persistent[0]));
        CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, before, 2, comm, &persistent[1]));
        CHECK_OK(MPI_Psend_init(&part_out, 1, 1, MPI_INT, next, 3, comm, MPI_INFO_NULL, &parts[0]));
        CHECK_OK(MPI_Precv_init(&part_in, 1, 1, MPI_INT, before, 3, comm, MPI_INFO_NULL, &parts[1]));
        CHECK_OK(MPI_Iallreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm, &sum_request));
        CHECK_OK(MPI_Isend(out, large, MPI_BYTE, next, 1, comm, &requests[1]));
        CHECK_OK(MPI_Comm_free(&comm));
        CHECK(comm == MPI_COMM_NULL);
        /* Messages with the same envelopes on communicators made afterwards. */
        for (int i = 0; i < 30; i++) {
            int wrong = -5 - i, back = -1;
            CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &others[i]));
            CHECK_OK(MPI_Sendrecv(&wrong, 1, MPI_INT, next, 2, &back, 1, MPI_INT, before, 2, others[i], MPI_STATUS_IGNORE));
            CHECK_INT(back, -5 - i);
        }
        for (int again = 0; again < 3; again++) {
            got = -1;
            CHECK_OK(MPI_Startall(2, persistent));
            CHECK_OK(MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE));
            CHECK_INT(got, 100 * round + before);
            part_in = -1;
            CHECK_OK(MPI_Startall(2, parts));
            CHECK_OK(MPI_Pready(0, parts[0]));
            CHECK_OK(MPI_Waitall(2, parts, MPI_STATUSES_IGNORE));
            CHECK_INT(part_in, before);
        }
        CHECK_OK(MPI_Wait(&sum_request, MPI_STATUS_IGNORE));
        CHECK_INT(sum, n * (n - 1) / 2);
        CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK_FILL(in, large, round * 10 + before);
        for (int i = 0; i < 2; i++) {
            CHECK_OK(MPI_Request_free(&persistent[i]));
            CHECK_OK(MPI_Request_free(&parts[i]));
        }
        for (int i = 0; i < 30; i++) CHECK_OK(MPI_Comm_free(&others[i]));
    }

    /* Nothing but inactive persistent requests is left of a freed communicator; receives from anybody on newer ones are older than
     * what those requests send when they start again. */
    MPI_Comm comm, others[30];
    MPI_Request persistent[2], caught[30];
    int sent = me, got = -1, catches[30], own = 7;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Send_init(&sent, 1, MPI_INT, next, 2, comm, &persistent[0]));
    CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, before, 2, comm, &persistent[1]));
    CHECK_OK(MPI_Startall(2, persistent));
    CHECK_OK(MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE));
    CHECK_OK(MPI_Comm_free(&comm));
    for (int i = 0; i < 30; i++) {
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &others[i]));
        CHECK_OK(MPI_Irecv(&catches[i], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, others[i], &caught[i]));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    got = -1;
    CHECK_OK(MPI_Startall(2, persistent));
    CHECK_OK(MPI_Waitall(2, persistent, MPI_STATUSES_IGNORE));
    CHECK_INT(got, before);
    for (int i = 0; i < 30; i++) {
        CHECK_OK(MPI_Send(&own, 1, MPI_INT, me, 9, others[i]));
        CHECK_OK(MPI_Wait(&caught[i], MPI_STATUS_IGNORE));
        CHECK_INT(catches[i], 7);
        CHECK_OK(MPI_Comm_free(&others[i]));
    }
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Request_free(&persistent[i]));
    free(out);
    free(in);
    return check_end();
}
