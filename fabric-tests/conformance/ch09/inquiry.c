/* Versions, processor name, clock, and the attributes of MPI_COMM_WORLD.
 *
 * Covers: 9.1.1, 9.1.2, 9.6, 9.5.1
 * Ranks: 1 2
 */
#include "check.h"
#include <time.h>

int main(int argc, char **argv)
{
    int version = -1, subversion = -1, length = -1, flag, *number;
    char library[MPI_MAX_LIBRARY_VERSION_STRING + 1], name[MPI_MAX_PROCESSOR_NAME + 1];
    /* Versions may be asked for at any time. */
    CHECK_INT(MPI_Get_version(&version, &subversion), MPI_SUCCESS);
    CHECK_INT(version, MPI_VERSION);
    CHECK_INT(subversion, MPI_SUBVERSION);
    memset(library, 0x5A, sizeof library);
    CHECK_INT(MPI_Get_library_version(library, &length), MPI_SUCCESS);
    CHECK(length > 0 && length < MPI_MAX_LIBRARY_VERSION_STRING);
    CHECK_INT(strlen(library), length);
    check_start(&argc, &argv);

    memset(name, 0x5A, sizeof name);
    CHECK_OK(MPI_Get_processor_name(name, &length));
    CHECK(length > 0 && length < MPI_MAX_PROCESSOR_NAME);
    CHECK_INT(strlen(name), length);

    double tick = MPI_Wtick(), start = MPI_Wtime(), last = start;
    CHECK(tick > 0 && tick <= 1e-3);
    for (int i = 0; i < 1000; i++) {
        double now = MPI_Wtime();
        CHECK(now >= last);
        last = now;
    }
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    start = MPI_Wtime();
    usleep(100000);
    double passed = MPI_Wtime() - start;
    clock_gettime(CLOCK_MONOTONIC, &after);
    double outer = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
    /* In seconds, and within what another clock saw around it. */
    CHECK(passed >= 0.099 && passed <= outer + 0.001);

    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &number, &flag));
    CHECK(flag && *number >= 32767);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_IO, &number, &flag));
    CHECK(flag && (*number == MPI_ANY_SOURCE || *number == MPI_PROC_NULL || (*number >= 0 && *number < check_size)));
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &number, &flag));
    CHECK(flag && (*number == 0 || *number == 1));
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &number, &flag));
    CHECK(flag && *number >= MPI_ERR_LASTCODE);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &number, &flag));
    CHECK(flag && (*number == MPI_PROC_NULL || (*number >= 0 && *number < check_size)));
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
    if (flag) CHECK_INT(*number, 0);
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &number, &flag));
    if (flag) CHECK(*number >= 1);
    MPI_Finalize();
    CHECK_INT(MPI_Get_version(&version, &subversion), MPI_SUCCESS);
    CHECK_INT(MPI_Get_library_version(library, &length), MPI_SUCCESS);
    return check_verdict();
}
