/* In place at some processes and not at others, where the standard leaves that to each: MPI_Reduce_scatter (also at those that get nothing
 * and have no receive buffer), MPI_Scan and MPI_Exscan, whose first process needs no receive buffer. In all three forms, with an
 * operation that commutes and one that does not.
 *
 * Covers: 6.10.2, 6.11.1, 6.11.2, 6.12, 6.13, 2.3
 * Ranks: 2 3 4 5 8
 * [MPICH 4.3 refuses a null receive buffer at the first process of MPI_Exscan.]
 */
#include "every.h"

enum { COUNTS = 4 };
static const int counts[COUNTS] = {1, 7, 300, 9000};

static long pair(int rank, int i)
{
    return (rank * 1009L + i * 31L + 7) % PRIME;
}

/* What members 0 to last - 1 give, combined. */
static void combined(int last, int i, int ordered, long *result)
{
    result[0] = pair(0, 2 * i), result[1] = pair(0, 2 * i + 1);
    for (int r = 1; r < last; r++) {
        long next[2] = {pair(r, 2 * i), pair(r, 2 * i + 1)};
        if (ordered)
            compose_pairs(result, next, 1);
        else
            next[0] += result[0], next[1] += result[1];
        result[0] = next[0], result[1] = next[1];
    }
}

static void call(int kind, int form, const void *send, void *recv, int count, const int *parts, MPI_Datatype type, MPI_Op op)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm w = MPI_COMM_WORLD;
    switch (kind * 3 + form) {
    case 0: CHECK_OK(MPI_Reduce_scatter(send, recv, parts, type, op, w)); break;
    case 1: CHECK_OK(MPI_Ireduce_scatter(send, recv, parts, type, op, w, &request)); break;
    case 2: CHECK_OK(MPI_Reduce_scatter_init(send, recv, parts, type, op, w, MPI_INFO_NULL, &request)); break;
    case 3: CHECK_OK(MPI_Scan(send, recv, count, type, op, w)); break;
    case 4: CHECK_OK(MPI_Iscan(send, recv, count, type, op, w, &request)); break;
    case 5: CHECK_OK(MPI_Scan_init(send, recv, count, type, op, w, MPI_INFO_NULL, &request)); break;
    case 6: CHECK_OK(MPI_Exscan(send, recv, count, type, op, w)); break;
    case 7: CHECK_OK(MPI_Iexscan(send, recv, count, type, op, w, &request)); break;
    default: CHECK_OK(MPI_Exscan_init(send, recv, count, type, op, w, MPI_INFO_NULL, &request));
    }
    if (form == PERSISTENT) CHECK_OK(MPI_Start(&request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (form == PERSISTENT) CHECK_OK(MPI_Request_free(&request));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    int n = check_size, me = check_rank;
    for (int c = 0; c < COUNTS; c++)
        for (int kind = 0; kind < 3; kind++)
            for (int form = BLOCKING; form < FORMS; form++)
                for (int ordered = 0; ordered < 2; ordered++)
                    for (int mixture = 1; mixture < 4; mixture++) {
                        int parts[MOST], units[MOST], total = 0, begin = 0, get, first = 0;
                        int in_place = (me + mixture) % 2 == 0 || (mixture == 3 && me == n - 1);
                        for (int r = 0; r < n; r++) {
                            parts[r] = (r + mixture) % 3 == 0 ? 0 : counts[c] + r;
                            units[r] = parts[r] * (ordered ? 1 : 2);
                            if (r < me) begin += parts[r];
                            total += parts[r];
                        }
                        if (kind > 0) total = counts[c];
                        get = kind == 0 ? parts[me] : total;
                        if (kind > 0) begin = 0;
                        /* Nothing comes here: no place for it. */
                        int nowhere = !in_place && ((kind == 0 && get == 0) || (kind == 2 && me == 0));
                        long *send = check_alloc(sizeof(long) * (size_t)(2 * total)), *recv = check_alloc(sizeof(long) * (size_t)(2 * total + 2));
                        for (int i = 0; i < 2 * total; i++) send[i] = pair(me, i), recv[i] = in_place ? send[i] : NOTHING;
                        recv[2 * total] = NOTHING;
                        call(kind, form, in_place ? MPI_IN_PLACE : (void *)send, nowhere ? NULL : recv, total * (ordered ? 1 : 2), units,
                             ordered ? pair_type : MPI_LONG, ordered ? compose : MPI_SUM);
                        int last = kind == 0 ? n : kind == 1 ? me + 1 : me;
                        for (int i = first; i < get && last > 0; i++) {
                            long wanted[2];
                            combined(last, begin + i, ordered, wanted);
                            if (recv[2 * i] != wanted[0] || recv[2 * i + 1] != wanted[1]) {
                                CHECK_FAIL("kind %d form %d ordered %d mixture %d count %d: pair %d", kind, form, ordered, mixture, counts[c], i);
                                break;
                            }
                        }
                        if (kind == 2 && me == 0)
                            for (int i = 0; i < 2 * total; i++) CHECK_INT(recv[i], in_place ? send[i] : NOTHING);
                        CHECK_INT(recv[2 * total], NOTHING);
                        for (int i = 0; i < 2 * total; i++) CHECK_INT(send[i], pair(me, i));
                        free(send);
                        free(recv);
                    }
    every_end();
    return check_end();
}
