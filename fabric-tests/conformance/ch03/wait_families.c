/* Wait and test any, all and some over mixtures of active and null requests: the right index and status, handles nulled,
 * nothing touched while incomplete.
 *
 * Covers: 3.7.3, 3.7.5, 2.9
 * Ranks: 2 4
 */
#include "check.h"

#define N 9

static int value[N];
static MPI_Request request[N];
static MPI_Status status[N];

/* Posts receives at the odd places; the peer sends them by and by, in an order of its own. */
static void post(void)
{
    for (int i = 0; i < N; i++) {
        value[i] = -1;
        request[i] = MPI_REQUEST_NULL;
        if (i % 2) CHECK_OK(MPI_Irecv(&value[i], 1, MPI_INT, check_rank ^ 1, i, MPI_COMM_WORLD, &request[i]));
    }
}

static void ask(int tag)
{
    CHECK_OK(MPI_Send(NULL, 0, MPI_INT, check_rank ^ 1, 100 + tag, MPI_COMM_WORLD));
}

static void answer(int tag)
{
    int number = 1000 + tag;
    CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, check_rank ^ 1, 100 + tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Send(&number, 1, MPI_INT, check_rank ^ 1, tag, MPI_COMM_WORLD));
}

static void check_one(int i, MPI_Status *s)
{
    CHECK_INT(value[i], 1000 + i);
    CHECK_STATUS(*s, check_rank ^ 1, i, MPI_INT, 1);
    CHECK(request[i] == MPI_REQUEST_NULL);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int order[] = {5, 1, 7, 3};
    int asks = check_rank % 2 == 0, index, flag, outcount, indices[N];
    MPI_Status one;

    for (int how = 0; how < 2; how++) { /* any: wait, test */
        if (!asks) {
            for (int k = 0; k < 4; k++) answer(order[k]);
            continue;
        }
        post();
        for (int k = 0; k < 4; k++) {
            if (how == 1) {
                CHECK_OK(MPI_Testany(N, request, &index, &flag, &one));
                CHECK_INT(flag, 0);
                CHECK_INT(index, MPI_UNDEFINED);
            }
            ask(order[k]);
            if (how == 0)
                CHECK_OK(MPI_Waitany(N, request, &index, &one));
            else
                for (flag = 0; !flag;) CHECK_OK(MPI_Testany(N, request, &index, &flag, &one));
            CHECK_INT(index, order[k]);
            check_one(index, &one);
        }
    }
    for (int how = 0; how < 2; how++) { /* all: wait, test */
        if (!asks) {
            for (int k = 0; k < 4; k++) answer(order[k]);
            continue;
        }
        post();
        for (int k = 0; k < 4; k++) {
            if (how == 1) {
                CHECK_OK(MPI_Testall(N, request, &flag, status));
                CHECK_INT(flag, 0);
                for (int i = 1; i < N; i += 2) CHECK(request[i] != MPI_REQUEST_NULL);
            }
            ask(order[k]);
        }
        memset(status, 0x5A, sizeof status);
        if (how == 0)
            CHECK_OK(MPI_Waitall(N, request, status));
        else
            for (flag = 0; !flag;) CHECK_OK(MPI_Testall(N, request, &flag, status));
        for (int i = 0; i < N; i++)
            if (i % 2)
                check_one(i, &status[i]);
            else
                CHECK_EMPTY(status[i]);
    }
    for (int how = 0; how < 2; how++) { /* some: wait, test */
        if (!asks) {
            for (int k = 0; k < 4; k++) answer(order[k]);
            continue;
        }
        post();
        if (how == 1) {
            CHECK_OK(MPI_Testsome(N, request, &outcount, indices, status));
            CHECK_INT(outcount, 0);
        }
        for (int k = 0; k < 4; k++) ask(order[k]);
        int seen[N] = {0}, done = 0;
        while (done < 4) {
            if (how == 0)
                CHECK_OK(MPI_Waitsome(N, request, &outcount, indices, status));
            else
                CHECK_OK(MPI_Testsome(N, request, &outcount, indices, status));
            CHECK(how == 1 || outcount >= 1);
            CHECK(outcount >= 0 && outcount <= 4 - done);
            for (int k = 0; k < outcount; k++) {
                CHECK(!seen[indices[k]]);
                seen[indices[k]] = 1;
                check_one(indices[k], &status[k]);
            }
            done += outcount;
        }
        CHECK_OK(MPI_Waitsome(N, request, &outcount, indices, status));
        CHECK_INT(outcount, MPI_UNDEFINED);
    }
    return check_end();
}
