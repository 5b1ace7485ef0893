/* Prints one line: what MPI_INFO_ENV and the process sets tell this process, and its thread level. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char line[16384], value[MPI_MAX_INFO_VAL], key[MPI_MAX_INFO_KEY], name[MPI_MAX_PSET_NAME_LEN + 1];
    static const char *levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"};
    static const int numbers[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int rank, n, flag, length, level, used = 0;
    MPI_Session session;
    MPI_Info info;
    MPI_Group group;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Query_thread(&level);
    used += snprintf(line + used, sizeof line - used, "%d:;", rank);
    MPI_Info_get_nkeys(MPI_INFO_ENV, &n);
    for (int i = 0; i < n; i++) {
        MPI_Info_get_nthkey(MPI_INFO_ENV, i, key);
        length = sizeof value;
        MPI_Info_get_string(MPI_INFO_ENV, key, &length, value, &flag);
        used += snprintf(line + used, sizeof line - used, "%s=%s;", key, value);
    }
    for (int i = 0; i < 4; i++)
        if (numbers[i] == level) used += snprintf(line + used, sizeof line - used, "level=%s;", levels[i]);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Session_get_num_psets(session, MPI_INFO_NULL, &n);
    for (int i = 0; i < n; i++) {
        length = sizeof name;
        MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &length, name);
        MPI_Session_get_pset_info(session, name, &info);
        length = sizeof value;
        MPI_Info_get_string(info, "mpi_size", &length, value, &flag);
        MPI_Info_free(&info);
        used += snprintf(line + used, sizeof line - used, "%s=%s;", name, value);
    }
    /* A set of others can be named too: the second program of the command line. */
    MPI_Group_from_session_pset(session, "weft://app/1", &group);
    if (group != MPI_GROUP_NULL) {
        MPI_Group_size(group, &n);
        used += snprintf(line + used, sizeof line - used, "second=%d;", n);
        MPI_Group_free(&group);
    }
    MPI_Session_finalize(&session);
    MPI_Finalize();
    puts(line);
    return 0;
}
