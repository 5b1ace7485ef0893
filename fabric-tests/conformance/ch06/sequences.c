/* Long random sequences of different collectives on several communicators with ranks at different speeds: they match in
 * the order of their calls.
 *
 * Covers: 6.1, 6.12, 6.14
 * Ranks: 2 3 5 8
 * Timeout: 120
 */
#include "check.h"

static unsigned state = 7;
static unsigned roll(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 8) % n;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Comm comms[3];
    comms[0] = MPI_COMM_WORLD;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comms[2])); /* ranks reversed */
    static int in[8 * 3000], out[8 * 3000];
    for (int step = 0; step < 600; step++) {
        unsigned kind = roll(8), which = roll(3), root = roll((unsigned)check_size), big = roll(10) == 0;
        int count = big ? 3000 : (int)roll(20), me, n = check_size;
        MPI_Comm comm = comms[which];
        CHECK_OK(MPI_Comm_rank(comm, &me));
        /* Some ranks dawdle now and then. */
        if ((step * 7 + check_rank * 13) % 97 == 0) usleep(1000);
        for (int i = 0; i < count * n; i++) in[i] = me * 31 + i + step;
        memset(out, 0xFF, sizeof(int) * (size_t)(count * n));
        int triangle = n * (n - 1) / 2;
        switch (kind) {
        case 0:
            CHECK_OK(MPI_Bcast(in, count, MPI_INT, (int)root, comm));
            for (int i = 0; i < count; i++) CHECK_INT(in[i], (int)root * 31 + i + step);
            break;
        case 1:
            CHECK_OK(MPI_Reduce(in, out, count, MPI_INT, MPI_SUM, (int)root, comm));
            if (me == (int)root)
                for (int i = 0; i < count; i++) CHECK_INT(out[i], triangle * 31 + n * (i + step));
            break;
        case 2:
            CHECK_OK(MPI_Allreduce(in, out, count, MPI_INT, MPI_MAX, comm));
            for (int i = 0; i < count; i++) CHECK_INT(out[i], (n - 1) * 31 + i + step);
            break;
        case 3:
            CHECK_OK(MPI_Gather(in, count, MPI_INT, out, count, MPI_INT, (int)root, comm));
            if (me == (int)root)
                for (int i = 0; i < count * n; i++) CHECK_INT(out[i], i / count * 31 + i % count + step);
            break;
        case 4:
            CHECK_OK(MPI_Scatter(in, count, MPI_INT, out, count, MPI_INT, (int)root, comm));
            for (int i = 0; i < count; i++) CHECK_INT(out[i], (int)root * 31 + me * count + i + step);
            break;
        case 5:
            CHECK_OK(MPI_Alltoall(in, count, MPI_INT, out, count, MPI_INT, comm));
            for (int i = 0; i < count * n; i++) CHECK_INT(out[i], i / count * 31 + me * count + i % count + step);
            break;
        case 6:
            CHECK_OK(MPI_Scan(in, out, count, MPI_INT, MPI_SUM, comm));
            for (int i = 0; i < count; i++) CHECK_INT(out[i], me * (me + 1) / 2 * 31 + (me + 1) * (i + step));
            break;
        default: CHECK_OK(MPI_Barrier(comm));
        }
    }
    CHECK_OK(MPI_Comm_free(&comms[1]));
    CHECK_OK(MPI_Comm_free(&comms[2]));
    return check_end();
}
