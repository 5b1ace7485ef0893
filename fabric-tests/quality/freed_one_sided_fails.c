/* Requests of one-sided operations that the target refuses, freed while they are under way: no call can return the error as theirs, so the next
 * synchronisation with the target does, to the window's error handler, and once. Of one that is waited for, either does, and once.
 *
 * Covers: 3.7.3, 12.3.5, 12.6
 * Ranks: 2
 */
#include "check.h"

static int calls, classes[8];

static void heard(MPI_Win *win, int *code, ...)
{
    (void)win;
    if (calls < 8) MPI_Error_class(*code, &classes[calls]);
    calls++;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static long data[4096], there[4];
    MPI_Aint place = 0;
    MPI_Win win;
    MPI_Request request;
    MPI_Errhandler handler;
    CHECK_OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_create_errhandler(heard, &handler));
    CHECK_OK(MPI_Win_set_errhandler(win, handler));
    if (check_rank == 1) {
        CHECK_OK(MPI_Win_attach(win, there, sizeof there));
        CHECK_OK(MPI_Get_address(there, &place));
    }
    CHECK_OK(MPI_Bcast(&place, 1, MPI_AINT, 1, MPI_COMM_WORLD));
    if (check_rank == 0) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
        for (int way = 0; way < 6; way++) {
            /* Memory behind the four numbers that are attached. */
            MPI_Aint far = place + (MPI_Aint)(sizeof there), long_one = way % 2 ? 4096 : 1;
            calls = 0;
            if (way / 2 == 0) CHECK_OK(MPI_Rput(data, (int)long_one, MPI_LONG, 1, far, (int)long_one, MPI_LONG, win, &request));
            if (way / 2 == 1) CHECK_OK(MPI_Rget(data, (int)long_one, MPI_LONG, 1, far, (int)long_one, MPI_LONG, win, &request));
            if (way / 2 == 2)
                CHECK_OK(MPI_Raccumulate(data, (int)long_one, MPI_LONG, 1, far, (int)long_one, MPI_LONG, MPI_SUM, win, &request));
            CHECK_INT(calls, 0);
            CHECK_OK(MPI_Request_free(&request));
            CHECK(request == MPI_REQUEST_NULL);
            CHECK_CLASS(MPI_Win_flush(1, win), MPI_ERR_RMA_RANGE);
            CHECK_INT(calls, 1);
            CHECK_INT(classes[0], MPI_ERR_RMA_RANGE);
            /* Told; what comes after is good. */
            long one = 5, got = 0;
            CHECK_OK(MPI_Put(&one, 1, MPI_LONG, 1, place, 1, MPI_LONG, win));
            CHECK_OK(MPI_Win_flush(1, win));
            CHECK_OK(MPI_Get(&got, 1, MPI_LONG, 1, place, 1, MPI_LONG, win));
            CHECK_OK(MPI_Win_flush(1, win));
            CHECK_INT(got, 5);
            CHECK_INT(calls, 1);
        }
        /* Of a request that is waited for its call tells, and then no synchronisation does; and the other way round. */
        for (int first = 0; first < 2; first++) {
            calls = 0;
            CHECK_OK(MPI_Rput(data, 1, MPI_LONG, 1, place + (MPI_Aint)(sizeof there), 1, MPI_LONG, win, &request));
            if (first == 0) CHECK_CLASS(MPI_Win_flush(1, win), MPI_ERR_RMA_RANGE);
            if (first == 0) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (first == 1) {
                /* What is put is known to be refused when an answer comes; a get has one of its own. */
                int code = MPI_Wait(&request, MPI_STATUS_IGNORE), flushed = MPI_Win_flush(1, win);
                CHECK_INT(check_class_of(code == MPI_SUCCESS ? flushed : code), MPI_ERR_RMA_RANGE);
                CHECK(code == MPI_SUCCESS || flushed == MPI_SUCCESS);
            }
            CHECK_INT(calls, 1);
            calls = 0;
            CHECK_OK(MPI_Rget(data, 1, MPI_LONG, 1, place + (MPI_Aint)(sizeof there), 1, MPI_LONG, win, &request));
            if (first == 0) CHECK_CLASS(MPI_Win_flush(1, win), MPI_ERR_RMA_RANGE);
            if (first == 0) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (first == 1) CHECK_CLASS(MPI_Wait(&request, MPI_STATUS_IGNORE), MPI_ERR_RMA_RANGE);
            if (first == 1) CHECK_OK(MPI_Win_flush(1, win));
            CHECK_INT(calls, 1);
        }
        CHECK_OK(MPI_Win_unlock(1, win));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (check_rank == 1) CHECK_OK(MPI_Win_detach(win, there));
    CHECK_OK(MPI_Errhandler_free(&handler));
    CHECK_OK(MPI_Win_free(&win));
    return check_end();
}
