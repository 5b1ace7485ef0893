/* MPI_THREAD_MULTIPLE: what one thread changes the others see once they are told: attributes of communicators and datatypes set, set
 * again and deleted, keys freed, groups and communicators made and freed again and again; a request's status asked by other threads than
 * the one that started it. Each thread asks again and again in between, so that it would know yesterday's answer.
 *
 * Covers: 3.7.6, 7.3, 7.4.1, 7.7, 11.6.1
 * Ranks: 1 2 3
 */
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 150 };

static pthread_barrier_t all;
static MPI_Comm shared, made;
static MPI_Datatype type;
static MPI_Group group;
static MPI_Request request;
static int key, type_key, members, deleted;
static int values[ROUNDS], got;

static int count_deletes(MPI_Comm comm, int keyval, void *value, void *extra)
{
    (void)comm;
    (void)keyval;
    (void)value;
    ++*(int *)extra;
    return MPI_SUCCESS;
}

static void step(void)
{
    pthread_barrier_wait(&all);
}

/* Asks twice: the second answer is the one that a thread may remember. */
static void attribute_is(int *wanted)
{
    for (int i = 0; i < 2; i++) {
        int *value = NULL, flag = -1;
        CHECK_OK(MPI_Comm_get_attr(shared, key, &value, &flag));
        CHECK_INT(flag != 0, wanted != NULL);
        if (flag) CHECK(value == wanted);
        CHECK_OK(MPI_Type_get_attr(type, type_key, &value, &flag));
        CHECK_INT(flag != 0, wanted != NULL);
        if (flag) CHECK(value == wanted);
        CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &flag));
        CHECK(flag && *value >= 32767);
    }
}

static void group_is(int size)
{
    for (int i = 0; i < 2; i++) {
        int found = -1, rank = -1, result = -1, zero = 0, translated = -1;
        CHECK_OK(MPI_Group_size(group, &found));
        CHECK_INT(found, size);
        CHECK_OK(MPI_Group_rank(group, &rank));
        CHECK_INT(rank, check_rank < size ? size - 1 - check_rank : MPI_UNDEFINED);
        CHECK_OK(MPI_Group_compare(group, group, &result));
        CHECK_INT(result, MPI_IDENT);
        CHECK_OK(MPI_Group_translate_ranks(group, 1, &zero, group, &translated));
        CHECK_INT(translated, 0);
    }
}

static void comm_is(int size)
{
    for (int i = 0; i < 2; i++) {
        int found = -1, rank = -1, inter = -1;
        CHECK_OK(MPI_Comm_size(made, &found));
        CHECK_INT(found, size);
        CHECK_OK(MPI_Comm_rank(made, &rank));
        CHECK_INT(rank, size == 1 ? 0 : check_size - 1 - check_rank);
        CHECK_OK(MPI_Comm_test_inter(made, &inter));
        CHECK_INT(inter, 0);
    }
}

/* Thread 0 changes, all ask. */
static void *work(void *argument)
{
    int first = argument == NULL;
    MPI_Group everybody;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &everybody));
    for (int round = 0; round < ROUNDS; round++) {
        if (first) {
            CHECK_OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_deletes, &key, &deleted));
            CHECK_OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &type_key, NULL));
        }
        step();
        attribute_is(NULL);
        step();
        if (first) {
            CHECK_OK(MPI_Comm_set_attr(shared, key, &values[round]));
            CHECK_OK(MPI_Type_set_attr(type, type_key, &values[round]));
            int ranges[1][3] = {{members = 1 + round % check_size, 0, -1}};
            ranges[0][0]--;
            CHECK_OK(MPI_Group_range_incl(everybody, 1, ranges, &group));
            if (round % 2)
                CHECK_OK(MPI_Comm_dup(MPI_COMM_SELF, &made));
            else
                CHECK_OK(MPI_Comm_split(shared, 0, -check_rank, &made));
            got = -1;
            CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, 0, 9, round % 4 < 2 ? shared : MPI_COMM_SELF, &request));
        }
        step();
        attribute_is(&values[round]);
        group_is(members);
        comm_is(round % 2 ? 1 : check_size);
        step();
        if (first) {
            CHECK_OK(MPI_Comm_set_attr(shared, key, &values[0]));
            CHECK_OK(MPI_Type_set_attr(type, type_key, &values[0]));
            if (round % 4 >= 2) CHECK_OK(MPI_Send(&round, 1, MPI_INT, 0, 9, MPI_COMM_SELF));
            else if (check_rank == 0)
                for (int to = 0; to < check_size; to++) CHECK_OK(MPI_Send(&round, 1, MPI_INT, to, 9, shared));
        }
        step();
        attribute_is(&values[0]);
        MPI_Status status;
        int flag = 0;
        while (!flag) CHECK_OK(MPI_Request_get_status(request, &flag, &status));
        CHECK_STATUS(status, 0, 9, MPI_INT, 1);
        CHECK_INT(got, round);
        step();
        if (first) {
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Comm_delete_attr(shared, key));
            CHECK_OK(MPI_Type_delete_attr(type, type_key));
            CHECK_OK(MPI_Group_free(&group));
            CHECK_OK(MPI_Comm_free(&made));
        }
        step();
        attribute_is(NULL);
        step();
        if (first) {
            CHECK_OK(MPI_Comm_free_keyval(&key));
            CHECK_OK(MPI_Type_free_keyval(&type_key));
            CHECK_INT(deleted, 2 * (round + 1));
        }
        step();
    }
    CHECK_OK(MPI_Group_free(&everybody));
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[THREADS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &shared));
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    pthread_barrier_init(&all, NULL, THREADS);
    for (long i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Comm_free(&shared));
    return check_end();
}
