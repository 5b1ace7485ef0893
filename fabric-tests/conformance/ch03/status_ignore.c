/* MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE wherever a status is asked for: receives, probes, waits and tests of active,
 * inactive and null requests, and calls that fail.
 *
 * Covers: 3.2.6, 3.7.3, 3.7.5, 3.7.6, 3.8
 * Ranks: 1 2
 * [Open MPI 5.0 gives MPI_SUCCESS for a failed MPI_Waitall whose statuses are ignored.]
 */
#include "check.h"

#define S MPI_STATUS_IGNORE
#define SS MPI_STATUSES_IGNORE

static int peer, value, got, given[200];

static void give(int tag)
{
    MPI_Request request;
    given[tag] = tag + 1000 * check_rank;
    CHECK_OK(MPI_Isend(&given[tag], 1, MPI_INT, peer, tag, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Request_free(&request));
}

static void has(int tag)
{
    CHECK_INT(got, tag + 1000 * peer);
    got = -1;
}

static MPI_Request take(int tag)
{
    MPI_Request request;
    give(tag);
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, &request));
    return request;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    peer = check_size - 1 - check_rank;
    MPI_Request requests[3], persistent;
    MPI_Message message;
    int flag, index, count, indices[3], tag = 0, pair[2] = {0, 0};
    CHECK_OK(MPI_Recv_init(&got, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &persistent));

    give(++tag);
    CHECK_OK(MPI_Recv(&got, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, S));
    has(tag);
    give(++tag);
    CHECK_OK(MPI_Probe(peer, tag, MPI_COMM_WORLD, S));
    for (flag = 0; !flag;) CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &flag, S));
    CHECK_OK(MPI_Mprobe(peer, tag, MPI_COMM_WORLD, &message, S));
    CHECK_OK(MPI_Mrecv(&got, 1, MPI_INT, &message, S));
    has(tag);
    give(++tag);
    for (flag = 0; !flag;) CHECK_OK(MPI_Improbe(peer, tag, MPI_COMM_WORLD, &flag, &message, S));
    CHECK_OK(MPI_Imrecv(&got, 1, MPI_INT, &message, &requests[0]));
    CHECK_OK(MPI_Wait(&requests[0], S));
    has(tag);
    value = ++tag + 1000 * check_rank;
    CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, peer, tag, &got, 1, MPI_INT, peer, tag, MPI_COMM_WORLD, S));
    has(tag);
    got = value;
    CHECK_OK(MPI_Sendrecv_replace(&got, 1, MPI_INT, peer, tag, peer, tag, MPI_COMM_WORLD, S));
    has(tag);

    /* One active request between an inactive and a null one; then none active. */
    for (int call = 0; call < 8; call++)
        for (int active = 1; active >= 0; active--) {
            requests[0] = persistent;
            requests[1] = active ? take(++tag) : MPI_REQUEST_NULL;
            requests[2] = MPI_REQUEST_NULL;
            flag = 0;
            count = index = -7;
            switch (call) {
            case 0:
                for (int i = 0; i < 3; i++) CHECK_OK(MPI_Wait(&requests[i], S));
                break;
            case 1: CHECK_OK(MPI_Waitany(3, requests, &index, S)); break;
            case 2: CHECK_OK(MPI_Waitall(3, requests, SS)); break;
            case 3: CHECK_OK(MPI_Waitsome(3, requests, &count, indices, SS)); break;
            case 4:
                while (!flag) CHECK_OK(MPI_Test(&requests[1], &flag, S));
                CHECK_OK(MPI_Test(&requests[0], &flag, S));
                CHECK(flag);
                break;
            case 5:
                while (!flag) CHECK_OK(MPI_Testany(3, requests, &index, &flag, S));
                break;
            case 6:
                while (!flag) CHECK_OK(MPI_Testall(3, requests, &flag, SS));
                break;
            default:
                do CHECK_OK(MPI_Testsome(3, requests, &count, indices, SS));
                while (count == 0);
            }
            if (call == 1 || call == 5) CHECK_INT(index, active ? 1 : MPI_UNDEFINED);
            if (call == 3 || call == 7) CHECK_INT(count, active ? 1 : MPI_UNDEFINED);
            CHECK(requests[1] == MPI_REQUEST_NULL);
            CHECK(requests[0] == persistent);
            if (active) has(tag);
        }
    for (int form = 0; form < (MPI_41 ? 4 : 1); form++)
        for (int active = 1; active >= 0; active--) {
            requests[0] = persistent;
            requests[1] = active ? take(++tag) : MPI_REQUEST_NULL;
            requests[2] = MPI_REQUEST_NULL;
            for (flag = 0; !flag;) {
                if (form == 0) CHECK_OK(MPI_Request_get_status(requests[1], &flag, S));
#if MPI_41
                if (form == 1) CHECK_OK(MPI_Request_get_status_any(3, requests, &index, &flag, S));
                if (form == 2) CHECK_OK(MPI_Request_get_status_all(3, requests, &flag, SS));
                if (form == 3) {
                    CHECK_OK(MPI_Request_get_status_some(3, requests, &count, indices, SS));
                    CHECK_INT(count == 0 || count == (active ? 1 : MPI_UNDEFINED), 1);
                    flag = count != 0;
                }
#endif
            }
            CHECK_OK(MPI_Wait(&requests[1], S));
            if (active) has(tag);
        }

    /* Errors come back without statuses, too. */
    int two[2] = {1, 2};
    MPI_Request send;
    for (int call = 0; call < 4; call++) {
        CHECK_OK(MPI_Isend(two, 2, MPI_INT, peer, ++tag, MPI_COMM_WORLD, &send));
        CHECK_OK(MPI_Irecv(&pair[0], 1, MPI_INT, peer, tag, MPI_COMM_WORLD, &requests[0]));
        requests[1] = requests[2] = MPI_REQUEST_NULL;
        if (call == 0) CHECK_CLASS(MPI_Wait(&requests[0], S), MPI_ERR_TRUNCATE);
        if (call == 1) CHECK_CLASS(MPI_Waitany(3, requests, &index, S), MPI_ERR_TRUNCATE);
        if (call == 2) CHECK_CLASS(MPI_Waitall(3, requests, SS), MPI_ERR_IN_STATUS);
        if (call == 3) CHECK_CLASS(MPI_Waitsome(3, requests, &count, indices, SS), MPI_ERR_IN_STATUS);
        CHECK_OK(MPI_Wait(&send, S));
        CHECK_INT(pair[1], 0);
    }
    CHECK_OK(MPI_Request_free(&persistent));
    return check_end();
}
