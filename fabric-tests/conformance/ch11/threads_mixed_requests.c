/* MPI_THREAD_MULTIPLE: one thread completes requests of many communicators, kinds and threads in one call; generalized requests
 * among them are completed by another thread; errors are told request by request.
 *
 * Covers: 3.7.5, 3.9, 6.12, 11.6.2, 13.2
 * Ranks: 2 3
 * Timeout: 180
 * MPICH 5.0 stops with a failed assertion of its own where MPI_Waitany and the like meet generalized requests that another
 * thread completes; without the generalized requests it passes. Open MPI 5.0 does not tell the truncation in MPI_Waitall.
 */
#include "check.h"
#include <pthread.h>

#define COMMS 5
#define LARGE 100000
static MPI_Comm comms[COMMS];
static MPI_Request to_complete[2];

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 3);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_UNDEFINED;
    status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (*(int *)extra)++;
    return MPI_SUCCESS;
}

static int refuse(void *extra, int complete)
{
    (void)extra, (void)complete;
    return MPI_SUCCESS;
}

static void *complete_later(void *unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        usleep(3000);
        CHECK_OK(MPI_Grequest_complete(to_complete[i]));
    }
    return NULL;
}

/* Two requests of every kind for each communicator; the messages go round. */
static int begin(int round, MPI_Request *all, unsigned char (*in)[LARGE], unsigned char (*out)[LARGE], int *sums, int *freed)
{
    int used = 0, n = check_size, to = (check_rank + 1) % n, from = (check_rank + n - 1) % n;
    for (int c = 0; c < COMMS; c++) {
        int length = c % 2 ? LARGE : 40;
        fill(out[c], (size_t)length, (unsigned)(round + 10 * c + 100 * check_rank));
        CHECK_OK(MPI_Irecv(in[c], length, MPI_BYTE, c == 2 ? MPI_ANY_SOURCE : from, round, comms[c], &all[used++]));
        CHECK_OK(MPI_Issend(out[c], length, MPI_BYTE, to, round, comms[c], &all[used++]));
        sums[c] = 0;
        CHECK_OK(MPI_Iallreduce(&check_size, &sums[c], 1, MPI_INT, MPI_SUM, comms[c], &all[used++]));
        all[used++] = MPI_REQUEST_NULL;
    }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(MPI_Grequest_start(query, release, refuse, freed, &all[used]));
        to_complete[i] = all[used++];
    }
    return used;
}

static void examine(int round, unsigned char (*in)[LARGE], int *sums)
{
    int from = (check_rank + check_size - 1) % check_size;
    for (int c = 0; c < COMMS; c++) {
        CHECK_FILL(in[c], (size_t)(c % 2 ? LARGE : 40), (unsigned)(round + 10 * c + 100 * from));
        CHECK_INT(sums[c], check_size * check_size);
    }
}

static void errors_are_told_one_by_one(void)
{
    MPI_Request both[3];
    MPI_Status statuses[3];
    int small = 0, large[4] = {1, 2, 3, 4}, fine = 0, me = check_rank;
    CHECK_OK(MPI_Comm_set_errhandler(comms[1], MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Comm_set_errhandler(comms[3], MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Irecv(&small, 1, MPI_INT, me, 900, comms[1], &both[0]));
    CHECK_OK(MPI_Irecv(&fine, 1, MPI_INT, me, 900, comms[3], &both[1]));
    both[2] = MPI_REQUEST_NULL;
    CHECK_OK(MPI_Send(large, 4, MPI_INT, me, 900, comms[1]));
    CHECK_OK(MPI_Send(large, 1, MPI_INT, me, 900, comms[3]));
    CHECK_CLASS(MPI_Waitall(3, both, statuses), MPI_ERR_IN_STATUS);
    CHECK_INT(check_class_of(statuses[0].MPI_ERROR), MPI_ERR_TRUNCATE);
    /* The other one may not even have completed (section 3.7.5). */
    if (check_class_of(statuses[1].MPI_ERROR) == MPI_ERR_PENDING)
        CHECK_OK(MPI_Wait(&both[1], MPI_STATUS_IGNORE));
    else
        CHECK_INT(statuses[1].MPI_ERROR, MPI_SUCCESS);
    CHECK_INT(fine, 1);
    CHECK(both[0] == MPI_REQUEST_NULL && both[1] == MPI_REQUEST_NULL);
}

int main(int argc, char **argv)
{
    static unsigned char in[COMMS][LARGE], out[COMMS][LARGE];
    int provided, freed = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    comms[0] = MPI_COMM_WORLD;
    for (int c = 1; c < COMMS; c++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[c]));
    for (int round = 0; round < 24; round++) {
        MPI_Request all[4 * COMMS + 2];
        MPI_Status statuses[4 * COMMS + 2];
        int sums[COMMS], indices[4 * COMMS + 2], used = begin(round, all, in, out, sums, &freed), done = 0, flag = 0, count;
        int active = 3 * COMMS + 2;
        pthread_t other;
        pthread_create(&other, NULL, complete_later, NULL);
        switch (round % 6) {
        case 0: CHECK_OK(MPI_Waitall(used, all, statuses)); break;
        case 1:
            while (!flag) CHECK_OK(MPI_Testall(used, all, &flag, statuses));
            break;
        case 2:
            while (done < active) {
                int index = -1;
                CHECK_OK(MPI_Waitany(used, all, &index, MPI_STATUS_IGNORE));
                CHECK(index >= 0 && index < used);
                done++;
            }
            break;
        case 3:
            while (done < active) {
                CHECK_OK(MPI_Waitsome(used, all, &count, indices, statuses));
                CHECK(count > 0);
                done += count;
            }
            break;
        case 4:
            while (done < active) {
                CHECK_OK(MPI_Testsome(used, all, &count, indices, statuses));
                done += count;
            }
            break;
        default:
            while (done < active) {
                int index = -1;
                CHECK_OK(MPI_Testany(used, all, &index, &flag, MPI_STATUS_IGNORE));
                if (flag && index != MPI_UNDEFINED) done++;
            }
        }
        for (int i = 0; i < used; i++) CHECK(all[i] == MPI_REQUEST_NULL);
        pthread_join(other, NULL);
        examine(round, in, sums);
        CHECK_INT(freed, 2 * (round + 1));
    }
    errors_are_told_one_by_one();
    for (int c = 1; c < COMMS; c++) CHECK_OK(MPI_Comm_free(&comms[c]));
    return check_end();
}
