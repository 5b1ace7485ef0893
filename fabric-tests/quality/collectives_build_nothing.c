/* A repeated collective builds nothing: after the first calls no memory is taken for schedules, requests or scratch, in any form, on
 * intra- and intercommunicators and on neighbourhoods. A message that comes before it is asked for takes some, and how many do
 * depends on which process is ahead, so that one allocation for each other process and call is allowed (a schedule takes ten and
 * more); alone there is none. All meet before the calls that count and after them: the first process of MPI_Scan waits for nobody, and
 * would send what belongs to the next test as well. MPI_Alltoallw keeps a list of its arguments for each side while it runs.
 *
 * Covers: 6.12, 6.13, 8.6
 * Ranks: 1 2 4
 * Timeout: 120
 */
#define _GNU_SOURCE
#include "../conformance/ch06/every.h"

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static long taken;
void *malloc(size_t bytes) { taken++; return __libc_malloc(bytes); }
void *calloc(size_t number, size_t bytes) { taken++; return __libc_calloc(number, bytes); }
void *realloc(void *old, size_t bytes) { taken++; return __libc_realloc(old, bytes); }
void *memalign(size_t alignment, size_t bytes) { taken++; return __libc_memalign(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { taken++; return __libc_memalign(alignment, bytes); }
int posix_memalign(void **to, size_t alignment, size_t bytes)
{
    taken++;
    *to = __libc_memalign(alignment, bytes);
    return *to == NULL ? 12 : 0;
}

enum { WARM = 40, CALLS = 400 };

#define CHECK_TAKEN(what, number, lists)                                                                              \
    do {                                                                                                              \
        if ((number) > CALLS / 10 + ((lists) + check_size - 1) * CALLS)                                                                  \
            CHECK_FAIL("%s: %ld allocations in %d calls", (what), (long)(number), CALLS);                             \
    } while (0)

static void meet(void) { CHECK_OK(MPI_Barrier(MPI_COMM_WORLD)); }

static void repeat(struct work *w)
{
    char what[64];
    long before = 0;
    if (w->form == PERSISTENT) work_init(w);
    work_fill(w, 1);
    for (int call = -WARM; call < CALLS; call++) {
        if (call == 0) {
            meet();
            before = taken;
        }
        work_begin(w);
        work_end(w);
    }
    long calls = taken - before;
    meet();
    snprintf(what, sizeof what, "kind %d, form %d, inter %d", w->kind, w->form, w->inter);
    CHECK_TAKEN(what, calls, w->kind == ALLTOALLW && w->form != PERSISTENT ? 2 : 0);
    work_free(w);
}

static void neighbors(int form)
{
    MPI_Comm ring;
    MPI_Request request = MPI_REQUEST_NULL;
    int out[2] = {check_rank, -check_rank}, in[2], ones[2] = {1, 1}, places[2] = {0, 1};
    long before = 0;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &check_size, (int[]){1}, 0, &ring));
    if (form == PERSISTENT) CHECK_OK(MPI_Neighbor_alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, ring, MPI_INFO_NULL, &request));
    for (int call = -WARM; call < CALLS; call++) {
        if (call == 0) before = taken;
        if (form == BLOCKING) CHECK_OK(MPI_Neighbor_alltoallv(out, ones, places, MPI_INT, in, ones, places, MPI_INT, ring));
        else if (form == NONBLOCKING) CHECK_OK(MPI_Ineighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, ring, &request));
        else CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    CHECK_TAKEN("a neighbourhood", taken - before, 0);
    if (form == PERSISTENT) CHECK_OK(MPI_Request_free(&request));
    CHECK_OK(MPI_Comm_free(&ring));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    for (int form = 0; form < FORMS; form++) {
        for (int kind = 0; kind < KINDS; kind++) {
            struct work w = work_of((enum kind)kind, (enum form)form, MPI_COMM_WORLD, 2);
            repeat(&w);
        }
        neighbors(form);
    }
    if (check_size > 1) {
        MPI_Comm local, both;
        int side = check_rank >= check_size / 2;
        CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, side, check_rank, &local));
        CHECK_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : check_size / 2, 1, &both));
        for (int kind = 0; kind < SCAN; kind++) {
            struct work w = work_of((enum kind)kind, NONBLOCKING, both, 2);
            w.side = side;
            repeat(&w);
        }
        CHECK_OK(MPI_Comm_free(&both));
        CHECK_OK(MPI_Comm_free(&local));
    }
    every_end();
    return check_end();
}
