/* Random nested types of every constructor, in both forms, decoded down to the predefined ones and built again from what was told:
 * the second type has the first one's size, bounds, contents and packed bytes.
 *
 * Covers: 5.1.13, 5.1.2, 5.1.3, 5.1.4, 19.2
 * Ranks: 1
 */
#include "check.h"

enum { TYPES = 400, MOST = 64, ROOM = 1 << 16 };

static unsigned state;
static int roll(int n)
{
    state = state * 1664525u + 1013904223u;
    return (int)(((uint64_t)(state >> 4) * (unsigned)n) >> 28);
}

static MPI_Datatype dup_of(MPI_Datatype type)
{
    MPI_Datatype dup;
    CHECK_OK(MPI_Type_dup(type, &dup));
    return dup;
}

/* One of the constructors around types of less depth; every other one in the form for large counts. */
static MPI_Datatype make(int depth)
{
    static const MPI_Datatype basics[5] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_SHORT_INT};
    if (depth == 0) return dup_of(basics[roll(5)]);
    MPI_Datatype part = make(roll(depth)), type, parts[2] = {part, part};
    int kind = roll(11), c = roll(2), blocks = 1 + roll(2), n = 1 + roll(3), stride = roll(9) - 4;
    int l[2] = {roll(3), 1 + roll(2)}, d[2] = {roll(7) - 3, roll(20)};
    MPI_Aint a[2] = {8 * d[0], 100 + 4 * d[1]};
    MPI_Count L[2] = {l[0], l[1]}, D[2] = {d[0], d[1]}, A[2] = {a[0], a[1]};
    int s[2] = {2 + roll(3), 2 + roll(3)}, u[2] = {1 + roll(2), 1 + roll(2)}, b[2] = {roll(2) % (s[0] - u[0] + 1), 0};
    MPI_Count S[2] = {s[0], s[1]}, U[2] = {u[0], u[1]}, B[2] = {b[0], b[1]};
    int order = roll(2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
    switch (kind) {
    case 0: CHECK_OK(c ? MPI_Type_contiguous_c(n, part, &type) : MPI_Type_contiguous(n, part, &type)); break;
    case 1:
        CHECK_OK(c ? MPI_Type_vector_c(blocks, n, stride, part, &type) : MPI_Type_vector(blocks, n, stride, part, &type));
        break;
    case 2:
        CHECK_OK(c ? MPI_Type_create_hvector_c(blocks, n, 24 * stride, part, &type)
                   : MPI_Type_create_hvector(blocks, n, 24 * stride, part, &type));
        break;
    case 3:
        CHECK_OK(c ? MPI_Type_indexed_c(blocks, L, D, part, &type) : MPI_Type_indexed(blocks, l, d, part, &type));
        break;
    case 4:
        CHECK_OK(c ? MPI_Type_create_hindexed_c(blocks, L, A, part, &type) : MPI_Type_create_hindexed(blocks, l, a, part, &type));
        break;
    case 5:
        CHECK_OK(c ? MPI_Type_create_indexed_block_c(blocks, n, D, part, &type)
                   : MPI_Type_create_indexed_block(blocks, n, d, part, &type));
        break;
    case 6:
        CHECK_OK(c ? MPI_Type_create_hindexed_block_c(blocks, n, A, part, &type)
                   : MPI_Type_create_hindexed_block(blocks, n, a, part, &type));
        break;
    case 7:
        parts[1] = make(roll(depth));
        CHECK_OK(c ? MPI_Type_create_struct_c(2, L, A, parts, &type) : MPI_Type_create_struct(2, l, a, parts, &type));
        CHECK_OK(MPI_Type_free(&parts[1]));
        break;
    case 8:
        CHECK_OK(c ? MPI_Type_create_subarray_c(2, S, U, B, order, part, &type)
                   : MPI_Type_create_subarray(2, s, u, b, order, part, &type));
        break;
    case 9: {
        int distributions[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
        int arguments[2] = {1 + roll(2), MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 1 + roll(2)}, rank = roll(2);
        CHECK_OK(c ? MPI_Type_create_darray_c(2 * grid[1], rank, 2, S, distributions, arguments, grid, order, part, &type)
                   : MPI_Type_create_darray(2 * grid[1], rank, 2, s, distributions, arguments, grid, order, part, &type));
        break;
    }
    default:
        CHECK_OK(c ? MPI_Type_create_resized_c(part, -8 * n, 160 + 8 * n, &type)
                   : MPI_Type_create_resized(part, -8 * n, 160 + 8 * n, &type));
    }
    CHECK_OK(MPI_Type_free(&part));
    return type;
}

struct told {
    MPI_Count ni, na, nc, nd;
    int combiner, i[MOST];
    MPI_Aint a[MOST];
    MPI_Count c[MOST];
    MPI_Datatype d[MOST];
};

static void ask(MPI_Datatype type, struct told *t)
{
    memset(t, 0, sizeof *t);
    CHECK_OK(MPI_Type_get_envelope_c(type, &t->ni, &t->na, &t->nc, &t->nd, &t->combiner));
    CHECK(t->ni <= MOST && t->na <= MOST && t->nc <= MOST && t->nd <= MOST);
    if (t->combiner != MPI_COMBINER_NAMED)
        CHECK_OK(MPI_Type_get_contents_c(type, t->ni, t->na, t->nc, t->nd, t->i, t->a, t->c, t->d));
}

static int is_named(MPI_Datatype type)
{
    MPI_Count ni, na, nc, nd;
    int combiner;
    CHECK_OK(MPI_Type_get_envelope_c(type, &ni, &na, &nc, &nd, &combiner));
    return combiner == MPI_COMBINER_NAMED;
}

static void release(MPI_Datatype *type)
{
    if (!is_named(*type)) CHECK_OK(MPI_Type_free(type));
}

/* A type of its own, made by the calls that were told. */
static MPI_Datatype rebuilt(MPI_Datatype type)
{
    struct told t;
    MPI_Datatype made = MPI_DATATYPE_NULL;
    ask(type, &t);
    if (t.combiner == MPI_COMBINER_NAMED) return type;
    int *i = t.i, n;
    MPI_Count *c = t.c;
    for (int k = 0; k < t.nd; k++) {
        MPI_Datatype inner = rebuilt(t.d[k]);
        if (inner != t.d[k]) release(&t.d[k]);
        t.d[k] = inner;
    }
    MPI_Datatype of = t.d[0];
    switch (t.combiner) {
    case MPI_COMBINER_DUP: CHECK_OK(MPI_Type_dup(of, &made)); break;
    case MPI_COMBINER_CONTIGUOUS:
        CHECK_OK(t.nc ? MPI_Type_contiguous_c(c[0], of, &made) : MPI_Type_contiguous(i[0], of, &made));
        break;
    case MPI_COMBINER_VECTOR:
        CHECK_OK(t.nc ? MPI_Type_vector_c(c[0], c[1], c[2], of, &made) : MPI_Type_vector(i[0], i[1], i[2], of, &made));
        break;
    case MPI_COMBINER_HVECTOR:
        CHECK_OK(t.nc ? MPI_Type_create_hvector_c(c[0], c[1], c[2], of, &made)
                      : MPI_Type_create_hvector(i[0], i[1], t.a[0], of, &made));
        break;
    case MPI_COMBINER_INDEXED:
        CHECK_OK(t.nc ? MPI_Type_indexed_c(c[0], c + 1, c + 1 + c[0], of, &made)
                      : MPI_Type_indexed(i[0], i + 1, i + 1 + i[0], of, &made));
        break;
    case MPI_COMBINER_HINDEXED:
        CHECK_OK(t.nc ? MPI_Type_create_hindexed_c(c[0], c + 1, c + 1 + c[0], of, &made)
                      : MPI_Type_create_hindexed(i[0], i + 1, t.a, of, &made));
        break;
    case MPI_COMBINER_INDEXED_BLOCK:
        CHECK_OK(t.nc ? MPI_Type_create_indexed_block_c(c[0], c[1], c + 2, of, &made)
                      : MPI_Type_create_indexed_block(i[0], i[1], i + 2, of, &made));
        break;
    case MPI_COMBINER_HINDEXED_BLOCK:
        CHECK_OK(t.nc ? MPI_Type_create_hindexed_block_c(c[0], c[1], c + 2, of, &made)
                      : MPI_Type_create_hindexed_block(i[0], i[1], t.a, of, &made));
        break;
    case MPI_COMBINER_STRUCT:
        CHECK_OK(t.nc ? MPI_Type_create_struct_c(c[0], c + 1, c + 1 + c[0], t.d, &made)
                      : MPI_Type_create_struct(i[0], i + 1, t.a, t.d, &made));
        break;
    case MPI_COMBINER_SUBARRAY:
        n = i[0];
        CHECK_OK(t.nc ? MPI_Type_create_subarray_c(n, c, c + n, c + 2 * n, i[1], of, &made)
                      : MPI_Type_create_subarray(n, i + 1, i + 1 + n, i + 1 + 2 * n, i[1 + 3 * n], of, &made));
        break;
    case MPI_COMBINER_DARRAY:
        n = i[2];
        CHECK_OK(t.nc ? MPI_Type_create_darray_c(i[0], i[1], n, c, i + 3, i + 3 + n, i + 3 + 2 * n, i[3 + 3 * n], of, &made)
                      : MPI_Type_create_darray(i[0], i[1], n, i + 3, i + 3 + n, i + 3 + 2 * n, i + 3 + 3 * n, i[3 + 4 * n], of,
                                               &made));
        break;
    case MPI_COMBINER_RESIZED:
        CHECK_OK(t.nc ? MPI_Type_create_resized_c(of, c[0], c[1], &made) : MPI_Type_create_resized(of, t.a[0], t.a[1], &made));
        break;
    default: CHECK_FAIL("combiner %d", t.combiner); MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int k = 0; k < t.nd; k++) release(&t.d[k]);
    return made;
}

/* The same calls with the same numbers, all the way down. */
static void same(MPI_Datatype one, MPI_Datatype two, unsigned seed)
{
    struct told s, t;
    ask(one, &s);
    ask(two, &t);
    CHECK_INT(t.combiner, s.combiner);
    if (s.combiner == MPI_COMBINER_NAMED) {
        CHECK(one == two);
        return;
    }
    if (memcmp(s.i, t.i, sizeof s.i) || memcmp(s.a, t.a, sizeof s.a) || memcmp(s.c, t.c, sizeof s.c))
        CHECK_FAIL("type %u: other numbers of combiner %d", seed, s.combiner);
    for (int k = 0; k < s.nd; k++) {
        same(s.d[k], t.d[k], seed);
        release(&s.d[k]);
        release(&t.d[k]);
    }
}

static unsigned char memory[2 * ROOM], packed[2][ROOM];

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int packs = 0;
    fill(memory, sizeof memory, 3);
    for (unsigned seed = 1; seed <= TYPES && check_failures == 0; seed++) {
        state = seed * 2654435761u;
        MPI_Datatype type[2];
        MPI_Count size[2], lb[2], extent[2], true_lb[2], true_extent[2], position[2] = {0, 0};
        type[0] = make(1 + roll(4));
        type[1] = rebuilt(type[0]);
        same(type[0], type[1], seed);
        for (int k = 0; k < 2; k++) {
            CHECK_OK(MPI_Type_commit(&type[k]));
            CHECK_OK(MPI_Type_size_c(type[k], &size[k]));
            CHECK_OK(MPI_Type_get_extent_c(type[k], &lb[k], &extent[k]));
            CHECK_OK(MPI_Type_get_true_extent_c(type[k], &true_lb[k], &true_extent[k]));
        }
        CHECK_INT(size[1], size[0]);
        CHECK_INT(lb[1], lb[0]);
        CHECK_INT(extent[1], extent[0]);
        CHECK_INT(true_lb[1], true_lb[0]);
        CHECK_INT(true_extent[1], true_extent[0]);
        if (size[0] <= ROOM && true_lb[0] >= -ROOM && true_lb[0] + true_extent[0] <= ROOM) {
            packs++;
            for (int k = 0; k < 2; k++)
                CHECK_OK(MPI_Pack_c(memory + ROOM, 1, type[k], packed[k], ROOM, &position[k], MPI_COMM_SELF));
            CHECK_INT(position[1], position[0]);
            if (memcmp(packed[0], packed[1], (size_t)size[0])) CHECK_FAIL("type %u: other bytes", seed);
        }
        if (check_failures) fprintf(stderr, "that was type %u\n", seed);
        for (int k = 0; k < 2; k++) CHECK_OK(MPI_Type_free(&type[k]));
    }
    CHECK(packs > TYPES / 2);
    return check_end();
}
