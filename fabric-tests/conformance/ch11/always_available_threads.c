/* The procedures of table 11.1 from several threads at once, before MPI_Init, with MPI_Init's thread level, and after MPI_Finalize; error
 * handlers of sessions are made and freed there too. (MPICH 5.0: MPI_Errhandler_free only between initialisation and end.)
 *
 * Covers: 11.4.1, 9.1.1, 9.3.4, 9.3.5, 11.2.3
 * Ranks: 1
 */
#include "check.h"
#include <pthread.h>

#define THREADS 6
#define ROUNDS 200

static void note(MPI_Session *session, int *code, ...) { (void)session, (void)code; }

static void *work(void *nothing)
{
    long wrong = 0;
    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Errhandler handler;
        char text[MPI_MAX_LIBRARY_VERSION_STRING], string[MPI_MAX_ERROR_STRING];
        int version, subversion, length, flag;
        wrong += MPI_Get_version(&version, &subversion) != MPI_SUCCESS || version != MPI_VERSION;
        wrong += MPI_Get_library_version(text, &length) != MPI_SUCCESS || (int)strlen(text) != length;
        wrong += MPI_Initialized(&flag) != MPI_SUCCESS;
        wrong += MPI_Finalized(&flag) != MPI_SUCCESS;
        wrong += MPI_Session_create_errhandler(note, &handler) != MPI_SUCCESS;
        wrong += MPI_Errhandler_f2c(MPI_Errhandler_c2f(handler)) != handler;
        wrong += MPI_Errhandler_free(&handler) != MPI_SUCCESS || handler != MPI_ERRHANDLER_NULL;
        wrong += MPI_Error_string(MPI_ERR_TAG, string, &length) != MPI_SUCCESS || (int)strlen(string) != length;
        wrong += MPI_Error_class(MPI_ERR_TAG, &flag) != MPI_SUCCESS || flag != MPI_ERR_TAG;
    }
    return (void *)wrong;
}

static void together(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, NULL), 0);
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
