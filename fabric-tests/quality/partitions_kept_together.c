/* Short partitions of a receive that was only ever waited for leave together; yet whatever the sender does with MPI in between sends those
 * that are ready, a first question for one of them is answered, and wrong marks are found and have no effect.
 *
 * More than the standard demands: a partition must have arrived for sure only once all are ready (4.2.2), so a sender that waits for the answer to
 * the first one, as here, may wait for ever; MPICH 5 sends nothing before the last mark. Wrong marks are errors of the program. What the standard
 * demands of such partitions is in ch04/short_partitions.
 *
 * Covers: 4.2, 4.2.1, 4.2.2, 2.9
 * Ranks: 2
 */
#include "check.h"

enum { PARTS = 8, WARM = 20, LONGEST = 4000 };

/* What a partition has: bytes of its own or, while only whole starts are awaited, ints that equal the number of the start, counted from 1, or
 * of the one 16 later. */
static void content(unsigned char *to, size_t part, int epoch, int at)
{
    if (epoch >= WARM || part % sizeof(int) != 0) {
        fill(to, part, (unsigned)(epoch * PARTS + at));
        return;
    }
    int number = epoch + 1 + (epoch % 2 ? 0 : 16);
    for (size_t i = 0; i < part; i += sizeof number) memcpy(to + i, &number, sizeof number);
}

static void mark_all(int epoch, unsigned char *data, size_t part, MPI_Request send)
{
    CHECK_OK(MPI_Start(&send));
    for (int i = 0; i < PARTS; i++) {
        int at = epoch % 2 ? PARTS - 1 - i : i;
        content(data + (size_t)at * part, part, epoch, at);
        CHECK_OK(MPI_Pready(at, send));
    }
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
}

static void whole_is_here(int epoch, unsigned char *data, size_t part)
{
    for (int i = 0; i < PARTS; i++) {
        unsigned char wanted[LONGEST];
        content(wanted, part, epoch, i);
        CHECK(memcmp(data + (size_t)i * part, wanted, part) == 0);
    }
}

/* Partition `first` is marked and nothing else; then the sender waits for an answer to it. `asks`: the receiver looks for it. */
static void one_before_the_others(int epoch, unsigned char *data, size_t part, MPI_Request *request, int first, int asks)
{
    CHECK_OK(MPI_Start(request));
    if (check_rank == 0) {
        int flag = 1;
        for (int i = 0; i < PARTS; i++) fill(data + (size_t)i * part, part, (unsigned)(epoch * PARTS + i));
        CHECK_OK(MPI_Pready(first, *request));
        if (asks)
            CHECK_OK(MPI_Recv(NULL, 0, MPI_INT, 1, epoch, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Test(request, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        /* Wrong marks. */
        CHECK_CLASS(MPI_Pready(first, *request), MPI_ERR_ARG);
        CHECK_CLASS(MPI_Pready(PARTS, *request), MPI_ERR_ARG);
        for (int i = 0; i < PARTS; i++)
            if (i != first) CHECK_OK(MPI_Pready(i, *request));
        CHECK_CLASS(MPI_Pready(first, *request), MPI_ERR_ARG);
    } else if (asks) {
        int flag = 0, others = 0;
        while (!flag) CHECK_OK(MPI_Parrived(*request, first, &flag));
        CHECK_FILL(data + (size_t)first * part, part, (unsigned)(epoch * PARTS + first));
        for (int i = 0; i < PARTS; i++) {
            CHECK_OK(MPI_Parrived(*request, i, &flag));
            others += flag;
        }
        CHECK_INT(others, 1);
        CHECK_OK(MPI_Send(NULL, 0, MPI_INT, 0, epoch, MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE));
    if (check_rank == 0)
        CHECK_CLASS(MPI_Pready(first, *request), MPI_ERR_REQUEST);
    else
        whole_is_here(epoch, data, part);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {1, 8, 100, 700, 1500, LONGEST};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        size_t part = (size_t)lengths[l];
        unsigned char *data = check_alloc(PARTS * part);
        MPI_Request request;
        int epoch = 0;
        if (check_rank == 0)
            CHECK_OK(MPI_Psend_init(data, PARTS, (int)part, MPI_BYTE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        else
            CHECK_OK(MPI_Precv_init(data, PARTS, (int)part, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        for (; epoch < WARM; epoch++) {
            if (check_rank == 0) {
                mark_all(epoch, data, part, request);
                continue;
            }
            CHECK_OK(MPI_Start(&request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            whole_is_here(epoch, data, part);
        }
        one_before_the_others(epoch++, data, part, &request, 2, 0);
        one_before_the_others(epoch++, data, part, &request, 0, 0);
        for (int i = 0; i < 4; i++) one_before_the_others(epoch++, data, part, &request, (3 * i + 1) % PARTS, 1);
        one_before_the_others(epoch++, data, part, &request, 7, 0);
        CHECK_OK(MPI_Request_free(&request));
        free(data);
    }
    return check_end();
}
