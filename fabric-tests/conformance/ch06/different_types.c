/* Data travel between different datatypes of one type signature: processes of even rank have contiguous ints, those of odd rank every
 * second int of a derived type, or a struct of ints in another order in memory; what is forwarded on the way is not looked at. The
 * datatypes and the operation are freed while the collectives are under way.
 *
 * Covers: 6.1, 6.4, 6.5, 6.6, 6.7, 6.8, 6.9.5, 6.12, 6.13
 * Ranks: 1 2 3 5 8
 */
#include "check.h"

enum { N = 6, WIDE = 2 * N };

/* Element `place` of a block as a process has it in memory: all of them, or every second one. */
static int at(int rank, int place) { return rank % 2 ? 2 * place : place; }
static int extent(int rank) { return rank % 2 ? WIDE : N; }
static int value(int from, int to, int i) { return from * 10000 + to * 100 + i; }

static MPI_Datatype own_type(int rank)
{
    MPI_Datatype type, made;
    if (rank % 2 == 0) CHECK_OK(MPI_Type_contiguous(N, MPI_INT, &made));
    else {
        CHECK_OK(MPI_Type_vector(N, 1, 2, MPI_INT, &type));
        CHECK_OK(MPI_Type_create_resized(type, 0, WIDE * sizeof(int), &made));
        CHECK_OK(MPI_Type_free(&type));
    }
    CHECK_OK(MPI_Type_commit(&made));
    return made;
}

static void add(void *left, void *right, int *count, MPI_Datatype *type)
{
    int *a = left, *b = right;
    (void)type;
    for (int block = 0; block < *count; block++)
        for (int i = 0; i < N; i++) {
            int place = block * extent(check_rank) + at(check_rank, i);
            b[place] += a[place];
        }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, wide = extent(me);
    static int one[WIDE], many[8 * WIDE], given[8 * WIDE], got[8 * WIDE], sum[WIDE];
    for (int root = 0; root < n; root++)
        for (int persistent = 0; persistent < 2; persistent++) {
            MPI_Request requests[6];
            MPI_Datatype type = own_type(me);
            MPI_Op op;
            CHECK_OK(MPI_Op_create(add, 1, &op));
            memset(one, 0xFF, sizeof one), memset(many, 0xFF, sizeof many), memset(got, 0xFF, sizeof got);
            memset(sum, 0xFF, sizeof sum), memset(given, 0xFF, sizeof given);
            for (int r = 0; r < n; r++)
                for (int i = 0; i < N; i++) given[r * wide + at(me, i)] = value(me, r, i);
            if (me == root)
                for (int i = 0; i < N; i++) one[at(me, i)] = value(root, 0, i);
            static int gathered[8 * WIDE], scattered[WIDE];
            memset(gathered, 0xFF, sizeof gathered), memset(scattered, 0xFF, sizeof scattered);
            int ints = me % 2 == 0 ? N : 1; /* even ranks count ints, odd ones blocks */
            MPI_Datatype basic = me % 2 == 0 ? MPI_INT : type;
            MPI_Comm w = MPI_COMM_WORLD;
            if (persistent) {
                CHECK_OK(MPI_Bcast_init(one, ints, basic, root, w, MPI_INFO_NULL, &requests[0]));
                CHECK_OK(MPI_Allgather_init(given, ints, basic, many, 1, type, w, MPI_INFO_NULL, &requests[1]));
                CHECK_OK(MPI_Alltoall_init(given, 1, type, got, ints, basic, w, MPI_INFO_NULL, &requests[2]));
                CHECK_OK(MPI_Gather_init(given, ints, basic, gathered, 1, type, root, w, MPI_INFO_NULL, &requests[3]));
                CHECK_OK(MPI_Scatter_init(given, 1, type, scattered, ints, basic, root, w, MPI_INFO_NULL, &requests[4]));
                CHECK_OK(MPI_Allreduce_init(given, sum, 1, type, op, w, MPI_INFO_NULL, &requests[5]));
                CHECK_OK(MPI_Startall(6, requests));
            } else {
                CHECK_OK(MPI_Ibcast(one, ints, basic, root, w, &requests[0]));
                CHECK_OK(MPI_Iallgather(given, ints, basic, many, 1, type, w, &requests[1]));
                CHECK_OK(MPI_Ialltoall(given, 1, type, got, ints, basic, w, &requests[2]));
                CHECK_OK(MPI_Igather(given, ints, basic, gathered, 1, type, root, w, &requests[3]));
                CHECK_OK(MPI_Iscatter(given, 1, type, scattered, ints, basic, root, w, &requests[4]));
                CHECK_OK(MPI_Iallreduce(given, sum, 1, type, op, w, &requests[5]));
            }
            CHECK_OK(MPI_Type_free(&type));
            CHECK_OK(MPI_Op_free(&op));
            CHECK_OK(MPI_Waitall(6, requests, MPI_STATUSES_IGNORE));
            if (persistent)
                for (int i = 0; i < 6; i++) CHECK_OK(MPI_Request_free(&requests[i]));
            for (int i = 0; i < N; i++) {
                CHECK_INT(one[at(me, i)], value(root, 0, i));
                CHECK_INT(scattered[at(me, i)], value(root, me, i));
                CHECK_INT(sum[at(me, i)], n * (n - 1) / 2 * 10000 + n * i);
                for (int r = 0; r < n; r++) {
                    CHECK_INT(many[r * wide + at(me, i)], value(r, 0, i));
                    CHECK_INT(got[r * wide + at(me, i)], value(r, me, i));
                    if (me == root) CHECK_INT(gathered[r * wide + at(me, i)], value(r, 0, i));
                }
                if (me % 2) CHECK_INT(one[2 * i + 1], -1);
            }
        }
    return check_end();
}
