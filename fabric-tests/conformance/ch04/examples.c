/* Examples 4.1 to 4.4 with their outcome checked; what is a parallel loop there are threads here.
 *
 * Covers: 4.1, 4.2, 4.2.1, 4.2.2, 4.3.1, 4.3.2, 4.3.3
 * Ranks: 2
 */
#include "check.h"
#include <pthread.h>

#define THREADS 4
#define PARTITIONS 8
#define PARTLENGTH 1000
#define LENGTH (PARTITIONS * PARTLENGTH)

static double message[LENGTH];
static MPI_Request request;
static int example;

static void compute(int partition)
{
    for (int i = 0; i < PARTLENGTH; i++) message[partition * PARTLENGTH + i] = example * 1e6 + partition * PARTLENGTH + i;
}

static void see(int from, int to)
{
    for (int i = from; i < to; i++)
        if (message[i] != example * 1e6 + i) {
            CHECK_FAIL("example 4.%d: element %d is %g", example, i, message[i]);
            return;
        }
}

/* Each thread takes every THREADS-th partition, the last first. */
static void *produce(void *place)
{
    int partitions = PARTITIONS / THREADS;
    for (int k = partitions - 1; k >= 0; k--) {
        int partition = k * THREADS + (int)(intptr_t)place;
        compute(partition);
        CHECK_OK(MPI_Pready(partition, request));
    }
    return NULL;
}

/* Each thread polls pairs of the receiver's partitions. */
static void *consume(void *place)
{
    int partitions = 2 * PARTITIONS, length = PARTLENGTH / 2;
    for (int j = 2 * (int)(intptr_t)place; j < partitions; j += 2 * THREADS) {
        int flag = 0, first = 0, second = 0;
        while (!first || !second) {
            CHECK_OK(MPI_Parrived(request, j, &flag));
            if (flag && !first) {
                first = 1;
                see(j * length, (j + 1) * length);
            }
            CHECK_OK(MPI_Parrived(request, j + 1, &flag));
            if (flag && !second) {
                second = 1;
                see((j + 1) * length, (j + 2) * length);
            }
        }
    }
    return NULL;
}

static void in_threads(void *(*function)(void *))
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, function, (void *)(intptr_t)i) != 0) CHECK_FAIL("no thread");
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

static void finish(void)
{
    int flag = 0;
    while (!flag) CHECK_OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    if (provided < MPI_THREAD_MULTIPLE) return check_end();
    MPI_Datatype type;
    MPI_Info info = MPI_INFO_NULL;
    CHECK_OK(MPI_Type_contiguous(PARTLENGTH, MPI_DOUBLE, &type));
    CHECK_OK(MPI_Type_commit(&type));
    for (int round = 0; round < 10; round++)
        for (example = 1; example <= 4; example++) {
            if (check_rank == 0) {
                if (example == 1)
                    CHECK_OK(MPI_Psend_init(message, PARTITIONS, PARTLENGTH, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, info, &request));
                else
                    CHECK_OK(MPI_Psend_init(message, PARTITIONS, 1, type, 1, 1, MPI_COMM_WORLD, info, &request));
                CHECK_OK(MPI_Start(&request));
                if (example == 1) {
                    for (int i = 0; i < PARTITIONS; i++) {
                        compute(i);
                        CHECK_OK(MPI_Pready(i, request));
                    }
                } else
                    in_threads(produce);
                finish();
            } else {
                memset(message, 0, sizeof message);
                int partitions = example == 3 ? 1 : example == 4 ? 2 * PARTITIONS : PARTITIONS;
                if (example == 2)
                    CHECK_OK(MPI_Precv_init(message, partitions, 1, type, 0, 1, MPI_COMM_WORLD, info, &request));
                else
                    CHECK_OK(MPI_Precv_init(message, partitions, LENGTH / partitions, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, info,
                                            &request));
                CHECK_OK(MPI_Start(&request));
                if (example == 4) in_threads(consume);
                finish();
                see(0, LENGTH);
            }
        }
    CHECK_OK(MPI_Type_free(&type));
    return check_end();
}
