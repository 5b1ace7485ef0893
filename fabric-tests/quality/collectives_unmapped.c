/* One member has no address space left for the memory that collective calls on a node share: all go by messages then, and none waits for those who would
 * have it.
 *
 * Covers: 6.1
 * Ranks: 2 3 4
 */
#include "check.h"
#include <sys/resource.h>

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    for (int limited = 0; limited < check_size; limited++) {
        struct rlimit before, now;
        long pages = 0;
        MPI_Comm comm;
        CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        CHECK_OK(MPI_Barrier(comm));
        CHECK(getrlimit(RLIMIT_AS, &before) == 0);
        FILE *file = fopen("/proc/self/statm", "r");
        CHECK(file != NULL && fscanf(file, "%ld", &pages) == 1);
        fclose(file);
        now = before;
        now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (16 << 20);
        if (check_rank == limited) CHECK(setrlimit(RLIMIT_AS, &now) == 0);
        for (int i = 0; i < 10; i++) {
            static int in[3000], out[3000];
            int count = i % 2 ? 3000 : 1;
            for (int j = 0; j < count; j++) in[j] = check_rank + i;
            CHECK_OK(MPI_Allreduce(in, out, count, MPI_INT, MPI_MAX, comm));
            for (int j = 0; j < count; j++) CHECK_INT(out[j], check_size - 1 + i);
            CHECK_OK(MPI_Bcast(out, count, MPI_INT, i % check_size, comm));
        }
        CHECK(setrlimit(RLIMIT_AS, &before) == 0);
        CHECK_OK(MPI_Comm_free(&comm));
    }
    return check_end();
}
