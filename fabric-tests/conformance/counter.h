/* A counter of the library's, by MPI_T. */
#ifndef COUNTER_H
#define COUNTER_H

#include "check.h"

static MPI_T_pvar_session counter_session;
static MPI_T_pvar_handle counter_handle;

static inline unsigned long long counted(void)
{
    unsigned long long value = 0;
    CHECK_INT(MPI_T_pvar_read(counter_session, counter_handle, &value), MPI_SUCCESS);
    return value;
}

static inline void open_counter(const char *name)
{
    int provided, index, count;
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_COUNTER, &index), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_session_create(&counter_session), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_handle_alloc(counter_session, index, NULL, &counter_handle, &count), MPI_SUCCESS);
}

#endif
