/* Marks of many sends whose partitions leave together: more sends under way than have a short course at a time, marked by turns, and each wrong mark
 * named without any effect, also of a request that is inactive, was freed, or has taken the place of a freed one.
 *
 * Covers: 4.2, 4.2.1
 * Ranks: 2
 */
#include "check.h"

enum { SENDS = 40, PARTS = 8, ROUNDS = 6 };

static unsigned char data[SENDS][PARTS * 200];
static MPI_Request request[SENDS];
static size_t part;

static void make(int i)
{
    if (check_rank == 0)
        CHECK_OK(MPI_Psend_init(data[i], PARTS, (int)part, MPI_BYTE, 1, i, MPI_COMM_WORLD, MPI_INFO_NULL, &request[i]));
    else
        CHECK_OK(MPI_Precv_init(data[i], PARTS, (int)part, MPI_BYTE, 0, i, MPI_COMM_WORLD, MPI_INFO_NULL, &request[i]));
}

/* Wrong marks of a send of which `done` partitions are marked, in the order of their numbers. */
static void wrong(MPI_Request of, int done)
{
    static const int never[] = {-1, PARTS, 63, 64, 65, 1 << 30};
    for (unsigned n = 0; n < sizeof never / sizeof *never; n++) CHECK_CLASS(MPI_Pready(never[n], of), MPI_ERR_ARG);
    for (int p = 0; p < done; p++) CHECK_CLASS(MPI_Pready(p, of), MPI_ERR_ARG);
}

/* One start of all. `errs`: with wrong marks, after which the rest leaves one by one. */
static void start_all(int round, int errs)
{
    for (int i = 0; i < SENDS; i++) {
        if (check_rank == 0) {
            CHECK_CLASS(MPI_Pready(i % PARTS, request[i]), MPI_ERR_REQUEST);
            fill(data[i], PARTS * part, (unsigned)(round * SENDS + i));
        }
        CHECK_OK(MPI_Start(&request[i]));
    }
    if (check_rank == 0) {
        for (int p = 0; p < PARTS; p++)
            for (int i = 0; i < SENDS; i++) {
                if (errs && i % 3 == 0) wrong(request[i], p);
                CHECK_OK(MPI_Pready(p, request[i]));
            }
        for (int i = 0; errs && i < SENDS; i++) wrong(request[i], PARTS);
    }
    CHECK_OK(MPI_Waitall(SENDS, request, MPI_STATUSES_IGNORE));
    for (int i = 0; check_rank == 1 && i < SENDS; i++) CHECK_FILL(data[i], PARTS * part, (unsigned)(round * SENDS + i));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static const int lengths[] = {1, 8, 200};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        part = (size_t)lengths[l];
        for (int i = 0; i < SENDS; i++) make(i);
        for (int round = 0; round < ROUNDS; round++) start_all(round, round > 2);
        /* Some are freed, and their numbers are found to be stale until others have them. */
        for (int i = 0; i < SENDS; i += 2) {
            MPI_Request stale = request[i];
            CHECK_OK(MPI_Request_free(&request[i]));
            if (check_rank == 0) CHECK_CLASS(MPI_Pready(0, stale), MPI_ERR_REQUEST);
        }
        for (int i = 0; i < SENDS; i += 2) make(i);
        for (int round = 0; round < ROUNDS; round++) start_all(round, round > 2);
        for (int i = 0; i < SENDS; i++) CHECK_OK(MPI_Request_free(&request[i]));
    }
    return check_end();
}
