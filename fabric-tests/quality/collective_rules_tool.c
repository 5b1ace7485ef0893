/* Rules for collective algorithms written through the tool interface before MPI_Init hold for all communicators.
 *
 * Covers: 6, 15.3.6
 * Ranks: 2 3
 */
#include "check.h"

int main(int argc, char **argv)
{
    static const char rules[] = "allreduce ranks=2.. -> reduce-bcast; bcast -> scatter-allgather";
    int provided, index, count;
    char *value;
    MPI_T_cvar_handle handle;
    if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_T_cvar_get_index("weft_collectives", &index) != MPI_SUCCESS ||
        MPI_T_cvar_handle_alloc(index, NULL, &handle, &count) != MPI_SUCCESS || (size_t)count < sizeof rules)
        return 1;
    value = calloc((size_t)count, 1);
    strcpy(value, rules);
    if (MPI_T_cvar_write(handle, value) != MPI_SUCCESS)
        return 1;
    check_start(&argc, &argv);
    memset(value, 0, (size_t)count);
    CHECK_OK(MPI_T_cvar_read(handle, value));
    CHECK(strcmp(value, rules) == 0);
    for (int count = 1; count < 100000; count *= 10) {
        long *in = check_alloc(sizeof(long) * (size_t)count), *out = check_alloc(sizeof(long) * (size_t)count);
        for (int i = 0; i < count; i++)
            in[i] = i + check_rank;
        CHECK_OK(MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++)
            CHECK(out[i] == (long)i * check_size + (long)check_size * (check_size - 1) / 2);
        CHECK_OK(MPI_Bcast(in, count, MPI_LONG, check_size - 1, MPI_COMM_WORLD));
        CHECK(in[count - 1] == count - 1 + check_size - 1);
        free(in);
        free(out);
    }
    CHECK_OK(MPI_T_cvar_handle_free(&handle));
    CHECK_OK(MPI_T_finalize());
    free(value);
    return check_end();
}
