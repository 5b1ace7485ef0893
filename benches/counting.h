/* What programs share that count instructions of single calls under callgrind: rank 0 collects between two marks, rank 1 runs free, and
 * the two agree through a shared line outside MPI on whose turn it is. */
#define _GNU_SOURCE
#include "osu/line.h"
#include <valgrind/callgrind.h>

enum { CALLS = 50, WARMUP = 20, MOST = 8192 };

/* The marks themselves cost some instructions: the row "nothing" tells how many. */
#define COUNT(call)                 \
    do {                            \
        CALLGRIND_TOGGLE_COLLECT;   \
        call;                       \
        CALLGRIND_TOGGLE_COLLECT;   \
    } while (0)

static char *data;
static int turn; /* strictly rising; both ranks count alike */

static void await_other(void)
{
    await_turn(++turn);
}

static void done(void)
{
    give_turn(++turn);
}

static void nothing(int size)
{
    (void)size;
    if (rank == 0)
        COUNT((void)0);
}

/* Hands on what was counted so far: that of so many calls. Of several dumps of a name the least is kept. */
static void dump(const char *name, int calls)
{
    char text[64];
    snprintf(text, sizeof text, "%s %d", name, calls);
    CALLGRIND_DUMP_STATS_AT(text);
}

/* Two ranks, their memory, and the line between them. */
static void begin_counting(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != 2)
        give_up("instructions: needs 2 ranks");
    data = buffer(MOST);
    share_line();
    MPI_Barrier(MPI_COMM_WORLD);
}
