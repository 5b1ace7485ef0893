/* The info key weft_device_atomics says whether others may have devices change numbers in this process's part of a window. What it is, not what
 * was wished, is told: false where no device does. With "false" all of them are messages, which the owner answers; otherwise it posts nothing.
 * It stays as it was when the window was made.
 *
 * Covers: 12.2.7, 12.3.4
 * Ranks: 2
 * Env: WEFT_TRANSPORT=softroce
 */
#include "counter.h"
#include <stdint.h>
#include <string.h>

enum { SUMS = 64 };

static void demand(MPI_Win win, const char *expected)
{
    char value[16];
    int length = sizeof value, flag;
    MPI_Info told;
    CHECK_OK(MPI_Win_get_info(win, &told));
    CHECK_OK(MPI_Info_get_string(told, "weft_device_atomics", &length, value, &flag));
    CHECK(flag && strcmp(value, expected) == 0);
    CHECK_OK(MPI_Info_free(&told));
}

/* A window whose part of rank 1 is made with this value, if any; what rank 1 is told afterwards. */
static void window(const char *wished, const char *expected)
{
    uint64_t *memory, one = 1, found = 0;
    MPI_Win win;
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    if (wished && check_rank == 1)
        CHECK_OK(MPI_Info_set(info, "weft_device_atomics", wished));
    CHECK_OK(MPI_Win_allocate(8, 8, info, MPI_COMM_WORLD, &memory, &win));
    *memory = 0;
    demand(win, check_rank == 1 ? expected : "true");
    /* Too late. */
    CHECK_OK(MPI_Info_set(info, "weft_device_atomics", strcmp(expected, "true") == 0 ? "false" : "true"));
    CHECK_OK(MPI_Win_set_info(win, info));
    demand(win, check_rank == 1 ? expected : "true");
    CHECK_OK(MPI_Info_free(&info));
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    unsigned long long before = counted();
    if (check_rank == 0) {
        CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, MPI_MODE_NOCHECK, win));
        for (uint64_t i = 0; i < SUMS; i++) {
            CHECK_OK(MPI_Fetch_and_op(&one, &found, MPI_UINT64_T, 1, 0, MPI_SUM, win));
            CHECK_OK(MPI_Win_flush(1, win));
            CHECK(found == i);
        }
        CHECK_OK(MPI_Win_unlock(1, win));
    }
    CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    unsigned long long taken = counted() - before;
    if (check_rank == 1)
        CHECK(strcmp(expected, "true") == 0 ? taken < SUMS / 2 : taken >= SUMS);
    CHECK_OK(MPI_Win_free(&win));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    open_counter("weft_work_requests");
    window(NULL, "true");
    window("true", "true");
    window("false", "false");
    window("perhaps", "true");
    uint64_t *memory;
    MPI_Win win;
    CHECK_OK(MPI_Win_allocate(8, 8, MPI_INFO_NULL, MPI_COMM_SELF, &memory, &win));
    demand(win, "false");
    CHECK_OK(MPI_Win_free(&win));
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_end();
}
