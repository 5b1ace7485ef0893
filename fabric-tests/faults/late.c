/* The last rank, on another host than the first, calls MPI for the first time after MPI_Init when the first one has asked it for a way long
 * ago and has long been blocked: "computes": it sleeps; "stops": it is stopped by a signal, as by a debugger, and continued. */
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
    int number = 0, last;
    check_start(&argc, &argv);
    last = check_size - 1;
    if (check_rank == last) {
        pid_t waker = fork();
        if (waker == 0) {
            sleep(15);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        if (argc > 1 && strcmp(argv[1], "stops") == 0) raise(SIGSTOP);
        waitpid(waker, NULL, 0);
        CHECK_OK(MPI_Recv(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK_INT(number, 7);
        CHECK_OK(MPI_Send(&number, 1, MPI_INT, 0, 6, MPI_COMM_WORLD));
    } else if (check_rank == 0) {
        number = 7;
        CHECK_OK(MPI_Ssend(&number, 1, MPI_INT, last, 5, MPI_COMM_WORLD));
        CHECK_OK(MPI_Recv(&number, 1, MPI_INT, last, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    return check_end();
}
