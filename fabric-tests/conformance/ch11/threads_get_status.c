/* MPI_Request_get_status and its any, some and all forms with MPI_THREAD_MULTIPLE, in MPI_COMM_WORLD and in communicators of two threads'
 * own: ch03/get_status.h.
 *
 * Covers: 3.7.6, 2.9, 11.6.2
 * Ranks: 2
 */
#include "check.h"
#include "ch03/get_status.h"
#include <pthread.h>

static void *work(void *comm)
{
    for (int turn = 0; turn < 20; turn++) get_status_forms(*(MPI_Comm *)comm);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t threads[2];
    MPI_Comm comms[2];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_world();
    CHECK_INT(provided, MPI_THREAD_MULTIPLE);
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
    get_status_forms(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) CHECK_INT(pthread_create(&threads[i], NULL, work, &comms[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) CHECK_OK(MPI_Comm_free(&comms[i]));
    return check_end();
}
