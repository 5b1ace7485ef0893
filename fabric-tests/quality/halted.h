/* Stopping and watching other processes. Nothing waits for ever: a state that does not come fails the test. */
#ifndef HALTED_H
#define HALTED_H

#include "check.h"
#include <signal.h>
#include <time.h>

/* The state letter of a process in /proc. */
static char state_of(int pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) return '?';
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    char *bracket = strrchr(text, ')');
    return bracket && bracket[1] == ' ' ? bracket[2] : '?';
}

/* Waits until `pid` is in the state `wanted`, for 40 s at most, and lets MPI move meanwhile if it may. `halted`: a process to be let go
 * on when the state does not come. */
static void await_state(int pid, char wanted, int halted)
{
    struct timespec moment = {0, 1000000};
    for (int tries = 0; tries < 40000; tries++) {
        int began = 0, arrived;
        if (state_of(pid) == wanted) return;
        MPI_Initialized(&began);
        if (began) MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
        nanosleep(&moment, NULL);
    }
    kill(halted, SIGCONT);
    CHECK_FAIL("process %d is in state %c and not in %c", pid, state_of(pid), wanted);
    _exit(1);
}

/* Stops a process. */
static void halt(int pid)
{
    kill(pid, SIGSTOP);
    await_state(pid, 'T', pid);
}

#endif
