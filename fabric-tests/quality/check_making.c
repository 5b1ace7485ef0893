/* WEFT_CHECK=collectives: procedures that make communicators and windows are compared with other collective calls and with each other. Where one
 * rank calls another one, all fail with an error that names two ranks and what they call; nothing was made, and the
 * communicator works afterwards. Calls that fit together make what they are to make.
 *
 * Covers: 6.14, 7.4.2, 7.6.2, 8.5, 12.2
 * Ranks: 3
 * Env: WEFT_CHECK=collectives
 * Timeout: 60
 */
#include "check.h"
#include "told.h"

enum { DUP, DUP_WITH_INFO, SPLIT, SPLIT_TYPE, CREATE, CART, GRAPH, DIST_GRAPH, ADJACENT, MERGE, INTER, MAKERS, WINDOW = MAKERS, ALLOCATE, SHARED, DYNAMIC, ALL };

static const char *const names[ALL] = {
    "MPI_Comm_dup", "MPI_Comm_dup_with_info", "MPI_Comm_split", "MPI_Comm_split_type", "MPI_Comm_create", "MPI_Cart_create",
    "MPI_Graph_create", "MPI_Dist_graph_create", "MPI_Dist_graph_create_adjacent", "MPI_Intercomm_merge", "MPI_Intercomm_create",
    "MPI_Win_create", "MPI_Win_allocate", "MPI_Win_allocate_shared", "MPI_Win_create_dynamic"};

static MPI_Comm made;
static MPI_Win window;
static MPI_Group group;
static MPI_Comm between, half;
static long exposed[4];

static int call(int what)
{
    MPI_Comm w = MPI_COMM_WORLD;
    int n = check_size, one = 1, right = (check_rank + 1) % n, left = (check_rank + n - 1) % n;
    void *base;
    made = MPI_COMM_NULL, window = MPI_WIN_NULL;
    switch (what) {
    case DUP: return MPI_Comm_dup(w, &made);
    case DUP_WITH_INFO: return MPI_Comm_dup_with_info(w, MPI_INFO_NULL, &made);
    case SPLIT: return MPI_Comm_split(w, 0, check_rank, &made);
    case SPLIT_TYPE: return MPI_Comm_split_type(w, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &made);
    case CREATE: return MPI_Comm_create(w, group, &made);
    case CART: return MPI_Cart_create(w, 1, &n, &one, 0, &made);
    case GRAPH: return MPI_Graph_create(w, n, (int[]){1, 2, 3}, (int[]){1, 2, 0}, 0, &made);
    case DIST_GRAPH: return MPI_Dist_graph_create(w, 1, &check_rank, &one, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
    case ADJACENT:
        return MPI_Dist_graph_create_adjacent(w, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
    case MERGE: return MPI_Intercomm_merge(between, check_rank > 0, &made);
    case INTER: return MPI_Intercomm_create(half, 0, w, check_rank > 0 ? 0 : 1, 9, &made);
    case WINDOW: return MPI_Win_create(exposed, sizeof exposed, 1, MPI_INFO_NULL, w, &window);
    case ALLOCATE: return MPI_Win_allocate(64, 1, MPI_INFO_NULL, w, &base, &window);
    case SHARED: return MPI_Win_allocate_shared(64, 1, MPI_INFO_NULL, w, &base, &window);
    default: return MPI_Win_create_dynamic(MPI_INFO_NULL, w, &window);
    }
}

static void drop(void)
{
    if (made != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(&made));
    if (window != MPI_WIN_NULL) CHECK_OK(MPI_Win_free(&window));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int odd = check_rank == 2, sum;
    char whole[64];
    made = MPI_COMM_NULL, window = MPI_WIN_NULL;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &group));
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, check_rank > 0, check_rank, &half));
    CHECK_OK(MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, check_rank > 0 ? 0 : 1, 8, &between));
    CHECK_OK(MPI_Comm_set_errhandler(between, MPI_ERRORS_RETURN));
    for (int what = 0; what < ALL; what++) {
        snprintf(whole, sizeof whole, "calls %s ", names[what]);
        if (what == MERGE) TOLD(odd ? MPI_Barrier(between) : call(what), MPI_ERR_OTHER, whole, "calls MPI_Barrier");
        else if (what == INTER && check_rank > 0) TOLD(odd ? MPI_Barrier(half) : call(what), MPI_ERR_OTHER, whole, "rank 1 calls MPI_Barrier");
        else if (what != INTER) TOLD(odd ? MPI_Barrier(MPI_COMM_WORLD) : call(what), MPI_ERR_OTHER, "rank 0", whole, "rank 2 calls MPI_Barrier");
        CHECK(made == MPI_COMM_NULL && window == MPI_WIN_NULL);
        /* With the next one. */
        if (what != MERGE && what != INTER && what + 1 < ALL && what + 1 != MERGE) {
            TOLD(call(odd ? what + 1 : what), MPI_ERR_OTHER, "rank 0", names[what], "rank 2", names[what + 1]);
            CHECK(made == MPI_COMM_NULL && window == MPI_WIN_NULL);
        }
        if (what == SHARED) continue; /* the ranks may be on several nodes */
        CHECK_OK(call(what));
        CHECK((made != MPI_COMM_NULL) != (window != MPI_WIN_NULL));
        drop();
    }
    CHECK_OK(MPI_Allreduce(&(int){1}, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK_INT(sum, check_size);
    CHECK_OK(MPI_Comm_free(&between));
    CHECK_OK(MPI_Comm_free(&half));
    CHECK_OK(MPI_Group_free(&group));
    return check_end();
}
