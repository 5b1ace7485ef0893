/* User operations, commutative or not, are applied in rank order and to whole buffers; MPI_Reduce_local; MPI_Op_commutative.
 *
 * Covers: 6.9.5, 6.9.1, 6.9.7, 6.11
 * Ranks: 1 2 3 5 8
 */
#include "check.h"

/* Two by two matrices modulo a prime: associative, far from commutative. */
#define P 10007

static int calls_with_wrong_type;

static void multiply(void *lower, void *both, int *length, MPI_Datatype *type)
{
    int *a = lower, *b = both, size;
    MPI_Type_size(*type, &size);
    if (size != 16) calls_with_wrong_type++;
    for (int i = 0; i < *length; i++, a += 4, b += 4) {
        int c[4] = {(a[0] * b[0] + a[1] * b[2]) % P, (a[0] * b[1] + a[1] * b[3]) % P,
                    (a[2] * b[0] + a[3] * b[2]) % P, (a[2] * b[1] + a[3] * b[3]) % P};
        memcpy(b, c, sizeof c);
    }
}

static void matrix(int rank, int i, int *m)
{
    m[0] = 1 + rank, m[1] = 2 + i % 7, m[2] = rank + i % 3, m[3] = 5;
}

static void product(int from, int to, int i, int *result)
{
    matrix(from, i, result);
    for (int r = from + 1; r < to; r++) {
        int right[4], a[4];
        memcpy(a, result, sizeof a);
        matrix(r, i, right);
        result[0] = (a[0] * right[0] + a[1] * right[2]) % P;
        result[1] = (a[0] * right[1] + a[1] * right[3]) % P;
        result[2] = (a[2] * right[0] + a[3] * right[2]) % P;
        result[3] = (a[2] * right[1] + a[3] * right[3]) % P;
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, me = check_rank, commutes = -1;
    MPI_Datatype type;
    MPI_Op op;
    CHECK_OK(MPI_Type_contiguous(4, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Op_create(multiply, 0, &op));
    CHECK_OK(MPI_Op_commutative(op, &commutes));
    CHECK_INT(commutes, 0);
    CHECK_OK(MPI_Op_commutative(MPI_SUM, &commutes));
    CHECK(commutes);
    for (int count = 1; count <= 2000; count = count * 6 + 1) {
        int(*in)[4] = check_alloc(16 * (size_t)count), (*out)[4] = check_alloc(16 * (size_t)count), want[4];
        for (int i = 0; i < count; i++) matrix(me, i, in[i]);
        for (int root = 0; root < n; root++) {
            CHECK_OK(MPI_Reduce(in, out, count, type, op, root, MPI_COMM_WORLD));
            if (me == root)
                for (int i = 0; i < count; i++) {
                    product(0, n, i, want);
                    CHECK(memcmp(out[i], want, sizeof want) == 0);
                }
        }
        CHECK_OK(MPI_Allreduce(in, out, count, type, op, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++) {
            product(0, n, i, want);
            CHECK(memcmp(out[i], want, sizeof want) == 0);
        }
        CHECK_OK(MPI_Scan(in, out, count, type, op, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++) {
            product(0, me + 1, i, want);
            CHECK(memcmp(out[i], want, sizeof want) == 0);
        }
        CHECK_OK(MPI_Exscan(in, out, count, type, op, MPI_COMM_WORLD));
        if (me > 0)
            for (int i = 0; i < count; i++) {
                product(0, me, i, want);
                CHECK(memcmp(out[i], want, sizeof want) == 0);
            }
        free(in);
        free(out);
    }
    int a[4], b[4], want[4];
    matrix(3, 1, a);
    matrix(4, 1, b);
    product(3, 5, 1, want);
    CHECK_OK(MPI_Reduce_local(a, b, 1, type, op));
    CHECK(memcmp(b, want, sizeof want) == 0);
    CHECK_INT(calls_with_wrong_type, 0);
    CHECK_OK(MPI_Op_free(&op));
    CHECK(op == MPI_OP_NULL);
    CHECK_OK(MPI_Type_free(&type));
    return check_end();
}
