/* Every rank says hello, and how much memory it holds. */
#include "common.h"

static const struct program program = {
    .name = "hello",
    .purpose = "MPI hello with the memory each rank holds",
    .method = "Every rank sends one byte to every other, then reads VmRSS (resident now) and VmHWM (most ever) from\n"
              "/proc/self/status.",
    .columns = {"VmRSS (MiB)", "VmHWM (MiB)"},
    .least_ranks = 1,
};

/* A line of /proc/self/status in MiB, -1 if there is none. */
static double memory(const char *field)
{
    char line[256];
    double mib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, field, strlen(field)))
            mib = atof(line + strlen(field) + 1) / 1024;
    if (status)
        fclose(status);
    return mib;
}

int main(int argc, char **argv)
{
    char name[MPI_MAX_PROCESSOR_NAME], label[MPI_MAX_PROCESSOR_NAME + 32], byte = 0, from = 0;
    double figures[MAX_COLUMNS] = {0};
    int length, other;
    start(&argc, &argv, &program);
    MPI_Get_processor_name(name, &length);
    for (other = 1; other < ranks; other++)
        MPI_Sendrecv(&byte, 1, MPI_CHAR, (rank + other) % ranks, 0, &from, 1, MPI_CHAR, (rank + ranks - other) % ranks, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    figures[0] = memory("VmRSS:");
    figures[1] = memory("VmHWM:");
    print_head(&program);
    if (rank == 0) {
        for (other = 0; other < ranks; other++) {
            if (other)
                MPI_Recv(figures, MAX_COLUMNS, MPI_DOUBLE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            snprintf(label, sizeof label, "hello-%d", other);
            print_row(&program, label, figures);
        }
        if (!options.csv)
            printf("# on %s\n", name);
    } else {
        MPI_Send(figures, MAX_COLUMNS, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
