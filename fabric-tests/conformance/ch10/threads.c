/* Info objects are made, filled, asked, duplicated and freed by several threads at once before MPI_Init, at the thread level of MPI_Init
 * and after MPI_Finalize; one object may be read by all.
 *
 * Covers: 10, 11.4.1, 11.6
 * Ranks: 1 2
 */
#include "check.h"
#include <pthread.h>

#define THREADS 6
#define ROUNDS 200

static MPI_Info shared;

static void *work(void *argument)
{
    long number = (long)argument, wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Info info, copy, env;
        char key[64], value[64], got[64];
        int flag = 0, length = sizeof got, n = -1, initialized, finalized;
        snprintf(key, sizeof key, "key of %ld", number);
        snprintf(value, sizeof value, "value %ld in round %d", number, i);
        wrong += MPI_Info_create(&info) != MPI_SUCCESS;
        wrong += MPI_Info_set(info, key, value) != MPI_SUCCESS;
        wrong += MPI_Info_set(info, "other", "x") != MPI_SUCCESS;
        wrong += MPI_Info_dup(info, &copy) != MPI_SUCCESS;
        wrong += MPI_Info_delete(info, key) != MPI_SUCCESS;
        wrong += MPI_Info_get_string(copy, key, &length, got, &flag) != MPI_SUCCESS || !flag || strcmp(got, value) != 0;
        wrong += MPI_Info_get_nkeys(info, &n) != MPI_SUCCESS || n != 1;
        wrong += MPI_Info_get_nthkey(info, 0, got) != MPI_SUCCESS || strcmp(got, "other") != 0;
        wrong += MPI_Info_f2c(MPI_Info_c2f(info)) != info;
        wrong += MPI_Info_free(&info) != MPI_SUCCESS || info != MPI_INFO_NULL;
        wrong += MPI_Info_free(&copy) != MPI_SUCCESS;
        length = sizeof got;
        wrong += MPI_Info_get_string(shared, "for all", &length, got, &flag) != MPI_SUCCESS || !flag || strcmp(got, "yes") != 0;
        if (i % 20 == 0) {
            wrong += MPI_Info_create_env(0, NULL, &env) != MPI_SUCCESS;
            wrong += MPI_Info_free(&env) != MPI_SUCCESS;
        }
        wrong += MPI_Initialized(&initialized) != MPI_SUCCESS || MPI_Finalized(&finalized) != MPI_SUCCESS;
    }
    return (void *)wrong;
}

static void together(void)
{
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        pthread_join(threads[i], &wrong);
        CHECK_INT((long)wrong, 0);
    }
}

int main(int argc, char **argv)
{
    CHECK_INT(MPI_Info_create(&shared), MPI_SUCCESS);
    CHECK_INT(MPI_Info_set(shared, "for all", "yes"), MPI_SUCCESS);
    together();
    check_start(&argc, &argv);
    together();
    MPI_Finalize();
    together();
    CHECK_INT(MPI_Info_free(&shared), MPI_SUCCESS);
    return check_verdict();
}
