/* MPI_Alltoall, MPI_Alltoallv and MPI_Alltoallw: block j of rank i becomes block i of rank j; MPI_IN_PLACE; gaps stay.
 *
 * Covers: 6.8, 6.1
 * Ranks: 1 2 3 4 5 8
 */
#include "check.h"

static long mark(int from, int to, int i)
{
    return from * 100000000L + to * 1000000L + i;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank;
    static const int sizes[] = {0, 1, 3, 200, 9000};
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int count = sizes[s];
        size_t bytes = sizeof(long) * (size_t)(count * n + 1);
        long *out = check_alloc(bytes), *in = check_alloc(bytes);
        for (int peer = 0; peer < n; peer++)
            for (int i = 0; i < count; i++) out[peer * count + i] = mark(me, peer, i);
        for (int i = 0; i <= count * n; i++) in[i] = -7;
        CHECK_OK(MPI_Alltoall(out, count, MPI_LONG, in, count, MPI_LONG, MPI_COMM_WORLD));
        for (int peer = 0; peer < n; peer++)
            for (int i = 0; i < count; i++) {
                CHECK_INT(in[peer * count + i], mark(peer, me, i));
                CHECK_INT(out[peer * count + i], mark(me, peer, i));
            }
        CHECK_INT(in[count * n], -7);
        memcpy(in, out, sizeof(long) * (size_t)(count * n));
        CHECK_OK(MPI_Alltoall(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, in, count, MPI_LONG, MPI_COMM_WORLD));
        for (int peer = 0; peer < n; peer++)
            for (int i = 0; i < count; i++) CHECK_INT(in[peer * count + i], mark(peer, me, i));
        CHECK_INT(in[count * n], -7);
        free(out);
        free(in);

        /* From i to j go count + (i + 2 j) % 3 elements, none where the sum is a multiple of 4. */
        int send_counts[16], receive_counts[16], send_displs[16], receive_displs[16], send_at = 1, receive_at = 1;
        for (int peer = n - 1; peer >= 0; peer--) {
            send_counts[peer] = (me + peer) % 4 == 3 ? 0 : count + (me + 2 * peer) % 3;
            receive_counts[peer] = (me + peer) % 4 == 3 ? 0 : count + (peer + 2 * me) % 3;
            send_displs[peer] = send_at;
            receive_displs[peer] = receive_at;
            send_at += send_counts[peer] + 1;
            receive_at += receive_counts[peer] + 1;
        }
        out = check_alloc(sizeof(long) * (size_t)send_at);
        in = check_alloc(sizeof(long) * (size_t)receive_at);
        for (int wide = 0; wide < 2; wide++) {
            for (int i = 0; i < receive_at; i++) in[i] = -7;
            for (int peer = 0; peer < n; peer++)
                for (int i = 0; i < send_counts[peer]; i++) out[send_displs[peer] + i] = mark(me, peer, i);
            if (!wide)
                CHECK_OK(MPI_Alltoallv(out, send_counts, send_displs, MPI_LONG, in, receive_counts, receive_displs, MPI_LONG, MPI_COMM_WORLD));
            else {
                int send_bytes[16], receive_bytes[16];
                MPI_Datatype types[16];
                for (int peer = 0; peer < n; peer++) {
                    send_bytes[peer] = send_displs[peer] * (int)sizeof(long);
                    receive_bytes[peer] = receive_displs[peer] * (int)sizeof(long);
                    types[peer] = MPI_LONG;
                }
                CHECK_OK(MPI_Alltoallw(out, send_counts, send_bytes, types, in, receive_counts, receive_bytes, types, MPI_COMM_WORLD));
            }
            char *seen = check_alloc((size_t)receive_at);
            memset(seen, 0, (size_t)receive_at);
            for (int peer = 0; peer < n; peer++)
                for (int i = 0; i < receive_counts[peer]; i++) {
                    CHECK_INT(in[receive_displs[peer] + i], mark(peer, me, i));
                    seen[receive_displs[peer] + i] = 1;
                }
            for (int i = 0; i < receive_at; i++)
                if (!seen[i]) CHECK_INT(in[i], -7);
            free(seen);
        }
        free(out);
        free(in);

        /* In place: counts per pair are equal both ways. */
        int counts[16], displs[16], at = 1;
        for (int peer = 0; peer < n; peer++) {
            counts[peer] = count + (me + peer) % 3;
            displs[peer] = at;
            at += counts[peer] + 1;
        }
        in = check_alloc(sizeof(long) * (size_t)at);
        for (int i = 0; i < at; i++) in[i] = -7;
        for (int peer = 0; peer < n; peer++)
            for (int i = 0; i < counts[peer]; i++) in[displs[peer] + i] = mark(me, peer, i);
        CHECK_OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, counts, displs, MPI_LONG, MPI_COMM_WORLD));
        for (int peer = 0; peer < n; peer++) {
            for (int i = 0; i < counts[peer]; i++) CHECK_INT(in[displs[peer] + i], mark(peer, me, i));
            CHECK_INT(in[displs[peer] + counts[peer]], -7);
        }
        free(in);
    }
    return check_end();
}
