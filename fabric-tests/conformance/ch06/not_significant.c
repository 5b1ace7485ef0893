/* In nonblocking and persistent collectives as in blocking ones, what means nothing at a process is not looked at: the receiving half of
 * gathers and reductions, the sending half of scatters, elsewhere than at the root; the sending half in place.
 *
 * Covers: 2.3, 6.5, 6.6, 6.7, 6.8, 6.9, 6.12, 6.13
 * Ranks: 1 2 3 5
 */
#include "check.h"

enum { BLOCKING, NONBLOCKING, PERSISTENT, FORMS };
enum { N = 5 };
#define NO MPI_DATATYPE_NULL
#define W MPI_COMM_WORLD

#define FORMS_OF(Name, name, ...)                                                       \
    do {                                                                                \
        MPI_Request request = MPI_REQUEST_NULL;                                         \
        if (form == BLOCKING) CHECK_OK(MPI_##Name(__VA_ARGS__));                        \
        if (form == NONBLOCKING) CHECK_OK(MPI_I##name(__VA_ARGS__, &request));          \
        if (form == PERSISTENT) {                                                       \
            CHECK_OK(MPI_##Name##_init(__VA_ARGS__, MPI_INFO_NULL, &request));          \
            CHECK_OK(MPI_Start(&request));                                              \
        }                                                                               \
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));                                \
        if (form == PERSISTENT) CHECK_OK(MPI_Request_free(&request));                   \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, own[N], one[N], all[8 * N], counts[8], displs[8], bytes[8];
    MPI_Datatype types[8];
    for (int r = 0; r < n; r++) counts[r] = N, displs[r] = r * N, bytes[r] = r * N * (int)sizeof(int), types[r] = MPI_INT;
    for (int form = 0; form < FORMS; form++)
        for (int root = 0; root < n; root++) {
            int at_root = me == root;
#define FRESH                                                     \
    for (int i = 0; i < N; i++) own[i] = 100 * me + i, one[i] = -1; \
    for (int i = 0; i < n * N; i++) all[i] = 100 * root + i
            FRESH;
            if (at_root) FORMS_OF(Gather, gather, own, N, MPI_INT, all, N, MPI_INT, root, W);
            else FORMS_OF(Gather, gather, own, N, MPI_INT, NULL, -1, NO, root, W);
            for (int i = 0; at_root && i < n * N; i++) CHECK_INT(all[i], 100 * (i / N) + i % N);
            FRESH;
            if (at_root) FORMS_OF(Gatherv, gatherv, own, N, MPI_INT, all, counts, displs, MPI_INT, root, W);
            else FORMS_OF(Gatherv, gatherv, own, N, MPI_INT, NULL, NULL, NULL, NO, root, W);
            for (int i = 0; at_root && i < n * N; i++) CHECK_INT(all[i], 100 * (i / N) + i % N);
            FRESH;
            for (int i = 0; i < N; i++) all[root * N + i] = own[i];
            if (at_root) FORMS_OF(Gather, gather, MPI_IN_PLACE, -1, NO, all, N, MPI_INT, root, W);
            else FORMS_OF(Gather, gather, own, N, MPI_INT, NULL, -1, NO, root, W);
            for (int i = 0; at_root && i < n * N; i++) CHECK_INT(all[i], 100 * (i / N) + i % N);
            FRESH;
            if (at_root) FORMS_OF(Scatter, scatter, all, N, MPI_INT, one, N, MPI_INT, root, W);
            else FORMS_OF(Scatter, scatter, NULL, -1, NO, one, N, MPI_INT, root, W);
            for (int i = 0; i < N; i++) CHECK_INT(one[i], 100 * root + me * N + i);
            FRESH;
            if (at_root) FORMS_OF(Scatterv, scatterv, all, counts, displs, MPI_INT, MPI_IN_PLACE, -1, NO, root, W);
            else FORMS_OF(Scatterv, scatterv, NULL, NULL, NULL, NO, one, N, MPI_INT, root, W);
            for (int i = 0; !at_root && i < N; i++) CHECK_INT(one[i], 100 * root + me * N + i);
            FRESH;
            if (at_root) FORMS_OF(Reduce, reduce, own, one, N, MPI_INT, MPI_SUM, root, W);
            else FORMS_OF(Reduce, reduce, own, NULL, N, MPI_INT, MPI_SUM, root, W);
            for (int i = 0; at_root && i < N; i++) CHECK_INT(one[i], 50 * n * (n - 1) + n * i);

            /* In place: what is sent is what is received, whatever the sending half says. */
            FRESH;
            for (int i = 0; i < N; i++) all[me * N + i] = own[i];
            FORMS_OF(Allgather, allgather, MPI_IN_PLACE, -1, NO, all, N, MPI_INT, W);
            for (int i = 0; i < n * N; i++) CHECK_INT(all[i], 100 * (i / N) + i % N);
            for (int i = 0; i < n * N; i++) all[i] = i / N == me ? own[i % N] : -1;
            FORMS_OF(Allgatherv, allgatherv, MPI_IN_PLACE, -1, NO, all, counts, displs, MPI_INT, W);
            for (int i = 0; i < n * N; i++) CHECK_INT(all[i], 100 * (i / N) + i % N);
            for (int i = 0; i < n * N; i++) all[i] = 1000 * me + i;
            FORMS_OF(Alltoall, alltoall, MPI_IN_PLACE, -1, NO, all, N, MPI_INT, W);
            for (int i = 0; i < n * N; i++) CHECK_INT(all[i], 1000 * (i / N) + me * N + i % N);
            for (int i = 0; i < n * N; i++) all[i] = 1000 * me + i;
            FORMS_OF(Alltoallv, alltoallv, MPI_IN_PLACE, NULL, NULL, NO, all, counts, displs, MPI_INT, W);
            for (int i = 0; i < n * N; i++) CHECK_INT(all[i], 1000 * (i / N) + me * N + i % N);
            for (int i = 0; i < n * N; i++) all[i] = 1000 * me + i;
            FORMS_OF(Alltoallw, alltoallw, MPI_IN_PLACE, NULL, NULL, NULL, all, counts, bytes, types, W);
            for (int i = 0; i < n * N; i++) CHECK_INT(all[i], 1000 * (i / N) + me * N + i % N);
        }
    return check_end();
}
