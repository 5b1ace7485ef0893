/* Questions about memory allocation kinds. Included after check.h. */
#ifndef KINDS_H
#define KINDS_H

#define KINDS "mpi_memory_alloc_kinds"
#define ASSERTED "mpi_assert_memory_alloc_kinds"

/* The value of a key; an empty string where there is none. */
static inline const char *value_of(MPI_Info info, const char *key, char *room)
{
    int flag = 0, length = MPI_MAX_INFO_VAL;
    room[0] = 0;
    CHECK_INT(MPI_Info_get_string(info, key, &length, room, &flag), MPI_SUCCESS);
    return flag ? room : "";
}

/* Whether a comma separated list has this element. */
static inline int has(const char *list, const char *element)
{
    size_t length = strlen(element);
    for (const char *at = list; at != NULL && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, element, length) == 0 && (at[length] == ',' || at[length] == 0)) return 1;
    return 0;
}

static inline const char *of_comm(MPI_Comm comm, const char *key, char *room)
{
    MPI_Info info;
    CHECK_INT(MPI_Comm_get_info(comm, &info), MPI_SUCCESS);
    value_of(info, key, room);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    return room;
}

static inline const char *of_win(MPI_Win win, const char *key, char *room)
{
    MPI_Info info;
    CHECK_INT(MPI_Win_get_info(win, &info), MPI_SUCCESS);
    value_of(info, key, room);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
    return room;
}

static inline MPI_Info info_with(const char *key, const char *value)
{
    MPI_Info info;
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Info_set(info, key, value), MPI_SUCCESS);
    return info;
}

#endif
