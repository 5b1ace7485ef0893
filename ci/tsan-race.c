/* A race on purpose: the main thread writes into memory that another thread has given to MPI_Send. The thread sanitizer must see the
 * library's read of it; where it does not, that it finds nothing elsewhere (ci/tsan) says nothing. */
#include <mpi.h>
#include <pthread.h>

static int out[4];

static void *send(void *unused)
{
    int in[4];
    MPI_Request request;
    (void)unused;
    MPI_Irecv(in, 4, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
    MPI_Send(out, 4, MPI_INT, 0, 1, MPI_COMM_SELF);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    pthread_t thread;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    pthread_create(&thread, NULL, send, NULL);
    out[1] = 3;
    pthread_join(thread, NULL);
    MPI_Finalize();
    return 0;
}
