/* Error classes, codes and strings can be added, looked up and removed by several threads at once, before MPI_Init, at any thread level
 * after it, and after MPI_Finalize. (MPICH 5.0 has no early MPI_Add_error_class.)
 *
 * Covers: 9.5.1, 9.4, 11.4.1
 * Ranks: 1
 */
#include "check.h"
#include <pthread.h>

#define THREADS 6
#define ROUNDS 150

static void *work(void *argument)
{
    long number = (long)argument, wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int mine = -1, code = -1, got = -1, length = -1;
        char text[MPI_MAX_ERROR_STRING], wanted[64];
        snprintf(wanted, sizeof wanted, "thread %ld round %d", number, i);
        wrong += MPI_Add_error_class(&mine) != MPI_SUCCESS;
        wrong += MPI_Add_error_code(mine, &code) != MPI_SUCCESS;
        wrong += MPI_Add_error_string(code, wanted) != MPI_SUCCESS;
        wrong += MPI_Error_class(code, &got) != MPI_SUCCESS || got != mine;
        wrong += MPI_Error_string(code, text, &length) != MPI_SUCCESS || strcmp(text, wanted) != 0;
        wrong += MPI_Remove_error_string(code) != MPI_SUCCESS;
        wrong += MPI_Remove_error_code(code) != MPI_SUCCESS;
        wrong += MPI_Remove_error_class(mine) != MPI_SUCCESS;
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
    together();
    check_start(&argc, &argv);
    together();
    MPI_Finalize();
    together();
    return check_verdict();
}
