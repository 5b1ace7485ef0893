/* Generalized requests beside every other kind in the calls that complete several: sends, receives, persistent and
 * partitioned ones, a sendrecv, a collective, a flush of a buffer, null and inactive ones. Their functions may call MPI.
 *
 * Covers: 13.2, 3.7.5, 3.7.6, 3.6, 3.9, 4.2.2, 2.9
 * Ranks: 1 2 3
 * [MPICH 5.0 does not fill the status of MPI_Isendrecv, and its MPI_Testall fails here with no error in any status.]
 */
#include "check.h"

#define N 11
#define COUNT 20000

static int next, before, frees, queries;

/* The functions talk to the process itself, which cannot wait for anybody. */
static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

static int query(void *extra, MPI_Status *status)
{
    int out = 5, in = 0;
    MPI_Request request;
    (void)extra;
    CHECK_OK(MPI_Isend(&out, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request));
    CHECK_OK(MPI_Recv(&in, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_INT(in, 5);
    queries++;
    MPI_Status_set_elements(status, MPI_INT, 1);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 6;
    status->MPI_TAG = 7;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    int flag;
    MPI_Request inner, copy;
    (void)extra;
    CHECK_OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    CHECK_INT(flag, 0);
    /* Another generalized request lives and dies meanwhile. */
    if (frees++ < 1000) {
        CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &inner));
        copy = inner;
        frees += 1000;
        CHECK_OK(MPI_Grequest_complete(copy));
        CHECK_OK(MPI_Wait(&inner, MPI_STATUS_IGNORE));
        frees -= 1001;
        queries--;
    }
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    next = (check_rank + 1) % check_size;
    before = (check_rank + check_size - 1) % check_size;
    int *out = check_alloc(sizeof(int) * COUNT), *in[6], total, one = 1, size = 1000000;
    char *space = check_alloc(1000000);
    for (int i = 0; i < 6; i++) in[i] = check_alloc(sizeof(int) * COUNT);
    for (int i = 0; i < COUNT; i++) out[i] = i + check_rank;
    CHECK_OK(MPI_Buffer_attach(space, size));
    MPI_Request requests[N], persistent, partitioned, left;
    MPI_Status statuses[N];
    CHECK_OK(MPI_Recv_init(in[1], COUNT, MPI_INT, before, 2, MPI_COMM_WORLD, &persistent));
    CHECK_OK(MPI_Psend_init(out, 4, COUNT / 4, MPI_INT, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &left));
    CHECK_OK(MPI_Precv_init(in[2], 2, COUNT / 2, MPI_INT, before, 4, MPI_COMM_WORLD, MPI_INFO_NULL, &partitioned));
    for (int call = 0; call < 7; call++) {
        int kinds[N], done[N] = {0}, flag = 0, index, count, indices[N];
        frees = queries = 0;
        for (int i = 0; i < 6; i++) memset(in[i], 0xFF, sizeof(int) * COUNT);
        CHECK_OK(MPI_Bsend(out, COUNT, MPI_INT, next, 5, MPI_COMM_WORLD));
        CHECK_OK(MPI_Irecv(in[0], COUNT, MPI_INT, before, 1, MPI_COMM_WORLD, &requests[0]));
        requests[1] = persistent;
        CHECK_OK(MPI_Start(&requests[1]));
        CHECK_OK(MPI_Grequest_start(query, release, cancel, NULL, &requests[2]));
        requests[3] = partitioned;
        requests[4] = left;
        CHECK_OK(MPI_Startall(2, requests + 3));
        CHECK_OK(MPI_Isend(out, COUNT, MPI_INT, next, 1, MPI_COMM_WORLD, &requests[5]));
        CHECK_OK(MPI_Issend(out, COUNT, MPI_INT, next, 2, MPI_COMM_WORLD, &requests[6]));
        CHECK_OK(MPI_Isendrecv(out, 5, MPI_INT, next, 6, in[3], COUNT, MPI_INT, before, 6, MPI_COMM_WORLD,
                               &requests[7]));
        CHECK_OK(MPI_Iallreduce(&one, &total, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[8]));
#if MPI_41
        CHECK_OK(MPI_Buffer_iflush(&requests[9]));
#else
        CHECK_OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[9]));
#endif
        requests[10] = MPI_REQUEST_NULL;
        for (int i = 0; i < N; i++) kinds[i] = i;
        CHECK_OK(MPI_Testall(N, requests, &flag, statuses));
        CHECK_INT(flag, 0);
#if MPI_41
        CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
        CHECK_INT(flag, 0);
#endif
        CHECK_OK(MPI_Pready_range(0, 3, requests[4]));
        CHECK_OK(MPI_Recv(in[4], COUNT, MPI_INT, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Grequest_complete(requests[2]));
        if (call == 0) {
            CHECK_OK(MPI_Waitall(N, requests, statuses));
        } else if (call == 1) {
            while (!flag) CHECK_OK(MPI_Testall(N, requests, &flag, statuses));
        } else if (call == 2) {
#if MPI_41
            while (!flag) CHECK_OK(MPI_Request_get_status_all(N, requests, &flag, statuses));
            CHECK_INT(frees, 0);
            CHECK(queries >= 1);
#endif
            CHECK_OK(MPI_Waitall(N, requests, statuses));
        } else {
            MPI_Status some[N];
            for (int over = 0; over < N - 1;) {
                count = 1;
                if (call == 3) CHECK_OK(MPI_Waitany(N, requests, &indices[0], &some[0]));
                if (call == 4) {
                    CHECK_OK(MPI_Testany(N, requests, &index, &flag, &some[0]));
                    indices[0] = index;
                    count = flag && index != MPI_UNDEFINED;
                }
                if (call == 5) CHECK_OK(MPI_Waitsome(N, requests, &count, indices, some));
                if (call == 6) CHECK_OK(MPI_Testsome(N, requests, &count, indices, some));
                for (int i = 0; i < count; i++) {
                    CHECK_INT(done[indices[i]], 0);
                    done[indices[i]] = 1;
                    statuses[indices[i]] = some[i];
                }
                over += count;
            }
        }
        CHECK_INT(frees, 1);
        CHECK(queries >= 1);
        for (int i = 0; i < N; i++) {
            int stays = kinds[i] == 1 || kinds[i] == 3 || kinds[i] == 4;
            CHECK((requests[i] == MPI_REQUEST_NULL) == !stays);
        }
        CHECK_STATUS(statuses[0], before, 1, MPI_INT, COUNT);
        CHECK_STATUS(statuses[1], before, 2, MPI_INT, COUNT);
        CHECK_STATUS(statuses[2], 6, 7, MPI_INT, 1);
        CHECK_STATUS(statuses[7], before, 6, MPI_INT, 5);
        CHECK_INT(total, check_size);
        for (int k = 0; k < 5; k++)
            for (int i = 0; i < (k == 3 ? 5 : COUNT); i++)
                if (in[k][i] != i + before) {
                    CHECK_FAIL("buffer %d, element %d is %d", k, i, in[k][i]);
                    break;
                }
        /* All is null or inactive now. */
        CHECK_OK(MPI_Waitany(N, requests, &index, &statuses[0]));
        CHECK_INT(index, MPI_UNDEFINED);
        CHECK_EMPTY(statuses[0]);
    }
    CHECK_OK(MPI_Request_free(&persistent));
    CHECK_OK(MPI_Request_free(&partitioned));
    CHECK_OK(MPI_Request_free(&left));
    void *address;
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    return check_end();
}
