/* Groups against plain arrays of world ranks, thousands of random ones: incl, excl, range_incl, range_excl (negative strides, ranges that
 * stop before their last rank), union, intersection, difference, compare, translate, rank; empty results are MPI_GROUP_EMPTY.
 *
 * Covers: 7.2.1, 7.3.1, 7.3.2, 7.3.3
 * Ranks: 1 3 8
 */
#include "check.h"

static unsigned state = 12345;

static int below(int limit)
{
    state = state * 1664525u + 1013904223u;
    return (int)((state >> 8) % (unsigned)limit);
}

struct list {
    MPI_Group group;
    int n, ranks[16];
};

static MPI_Group world;

static int place(const struct list *list, int rank)
{
    for (int i = 0; i < list->n; i++)
        if (list->ranks[i] == rank) return i;
    return MPI_UNDEFINED;
}

static void check_list(const struct list *list)
{
    int size, rank, all[16], translated[16];
    CHECK_OK(MPI_Group_size(list->group, &size));
    CHECK_INT(size, list->n);
    CHECK_OK(MPI_Group_rank(list->group, &rank));
    CHECK_INT(rank, place(list, check_rank));
    CHECK((list->n == 0) == (list->group == MPI_GROUP_EMPTY));
    for (int i = 0; i < list->n; i++) all[i] = i;
    CHECK_OK(MPI_Group_translate_ranks(list->group, list->n, all, world, translated));
    for (int i = 0; i < list->n; i++) CHECK_INT(translated[i], list->ranks[i]);
    for (int i = 0; i < check_size; i++) all[i] = i;
    CHECK_OK(MPI_Group_translate_ranks(world, check_size, all, list->group, translated));
    for (int i = 0; i < check_size; i++) CHECK_INT(translated[i], place(list, i));
}

static struct list random_list(void)
{
    struct list list;
    list.n = 0;
    int want = below(check_size + 1);
    while (list.n < want) {
        int rank = below(check_size);
        if (place(&list, rank) == MPI_UNDEFINED) list.ranks[list.n++] = rank;
    }
    CHECK_OK(MPI_Group_incl(world, list.n, list.ranks, &list.group));
    check_list(&list);
    return list;
}

static void drop(struct list *list)
{
    if (list->group != MPI_GROUP_EMPTY) {
        CHECK_OK(MPI_Group_free(&list->group));
        CHECK(list->group == MPI_GROUP_NULL);
    }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int n = check_size, result;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    CHECK(MPI_GROUP_EMPTY != MPI_GROUP_NULL);
    for (int round = 0; round < 1000; round++) {
        struct list a = random_list(), b = random_list(), c;
        /* Set operations, in the order of the first group. */
        for (int op = 0; op < 3; op++) {
            c.n = 0;
            for (int i = 0; i < a.n; i++) {
                int in_b = place(&b, a.ranks[i]) != MPI_UNDEFINED;
                if (op == 0 || (op == 1 && in_b) || (op == 2 && !in_b)) c.ranks[c.n++] = a.ranks[i];
            }
            for (int i = 0; op == 0 && i < b.n; i++)
                if (place(&a, b.ranks[i]) == MPI_UNDEFINED) c.ranks[c.n++] = b.ranks[i];
            if (op == 0) CHECK_OK(MPI_Group_union(a.group, b.group, &c.group));
            if (op == 1) CHECK_OK(MPI_Group_intersection(a.group, b.group, &c.group));
            if (op == 2) CHECK_OK(MPI_Group_difference(a.group, b.group, &c.group));
            check_list(&c);
            drop(&c);
        }
        int same = a.n == b.n, similar = a.n == b.n;
        for (int i = 0; i < a.n; i++) {
            if (i < b.n) same &= a.ranks[i] == b.ranks[i];
            similar &= place(&b, a.ranks[i]) != MPI_UNDEFINED;
        }
        CHECK_OK(MPI_Group_compare(a.group, b.group, &result));
        CHECK_INT(result, same ? MPI_IDENT : similar ? MPI_SIMILAR : MPI_UNEQUAL);
        /* A part of a, by a range with any stride, then by another one that does not meet it. */
        if (a.n > 0) {
            int ranges[2][3], count = 1, out[16] = {0};
            int first = below(a.n), last = below(a.n), stride = 1 + below(3);
            ranges[0][0] = first;
            ranges[0][1] = last;
            ranges[0][2] = last >= first ? stride : -stride;
            c.n = 0;
            for (int r = first; ranges[0][2] > 0 ? r <= last : r >= last; r += ranges[0][2]) {
                c.ranks[c.n++] = a.ranks[r];
                out[r] = 1;
            }
            int spare = below(a.n);
            if (!out[spare]) {
                ranges[1][0] = ranges[1][1] = spare;
                ranges[1][2] = -7;
                c.ranks[c.n++] = a.ranks[spare];
                out[spare] = 1;
                count = 2;
            }
            CHECK_OK(MPI_Group_range_incl(a.group, count, ranges, &c.group));
            check_list(&c);
            drop(&c);
            CHECK_OK(MPI_Group_range_excl(a.group, count, ranges, &c.group));
            c.n = 0;
            for (int r = 0; r < a.n; r++)
                if (!out[r]) c.ranks[c.n++] = a.ranks[r];
            check_list(&c);
            drop(&c);
            int ranks[16], excluded = 0;
            for (int r = a.n - 1; r >= 0; r--)
                if (out[r]) ranks[excluded++] = r;
            CHECK_OK(MPI_Group_excl(a.group, excluded, ranks, &c.group));
            check_list(&c);
            drop(&c);
        }
        drop(&a);
        drop(&b);
    }
    /* Nothing included is empty, nothing excluded is the same group. */
    MPI_Group group;
    CHECK_OK(MPI_Group_incl(world, 0, NULL, &group));
    CHECK(group == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_range_incl(world, 0, NULL, &group));
    CHECK(group == MPI_GROUP_EMPTY);
    CHECK_OK(MPI_Group_range_excl(world, 0, NULL, &group));
    CHECK_OK(MPI_Group_compare(group, world, &result));
    CHECK_INT(result, MPI_IDENT);
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Group_size(MPI_GROUP_EMPTY, &result));
    CHECK_INT(result, 0);
    CHECK_OK(MPI_Group_rank(MPI_GROUP_EMPTY, &result));
    CHECK_INT(result, MPI_UNDEFINED);
    CHECK_OK(MPI_Group_union(MPI_GROUP_EMPTY, world, &group));
    CHECK_OK(MPI_Group_compare(group, world, &result));
    CHECK_INT(result, MPI_IDENT);
    CHECK_OK(MPI_Group_free(&group));
    int none = MPI_PROC_NULL, translated = 5;
    CHECK_OK(MPI_Group_translate_ranks(world, 1, &none, MPI_GROUP_EMPTY, &translated));
    CHECK_INT(translated, MPI_PROC_NULL);
    /* A communicator's group lives longer than the communicator, and than its own handle. */
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_group(comm, &group));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Group_size(group, &result));
    CHECK_INT(result, n);
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, group, &comm));
    CHECK_OK(MPI_Group_free(&group));
    CHECK_OK(MPI_Barrier(comm));
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
