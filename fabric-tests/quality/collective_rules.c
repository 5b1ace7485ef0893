/* Rules say which algorithm a communicator's collectives take, by the info key weft_collectives: those of the five most used ones give the right
 * result, blocking and not (all of them: collective_every_rule), and a rule that cannot be read is refused with what is wrong. Rules of the job come from WEFT_COLLECTIVES,
 * which the tool interface shows.
 *
 * Covers: 6
 * Ranks: 1 2 4 5
 * Env: WEFT_COLLECTIVES=barrier->dissemination-4;allreduce bytes=64K..->reduce-scatter-allgather
 * Timeout: 60
 */
#include "check.h"

static void rules(MPI_Comm comm, const char *text)
{
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "weft_collectives", text));
    CHECK_OK(MPI_Comm_set_info(comm, info));
    CHECK_OK(MPI_Info_free(&info));
}

static void try_all(MPI_Comm comm, int count)
{
    long *in = check_alloc(sizeof(long) * (size_t)(count + 1)), *out = check_alloc(sizeof(long) * (size_t)(count + 1));
    long *all = check_alloc(sizeof(long) * (size_t)(count * check_size + 1));
    for (int root = 0; root < check_size; root += check_size > 2 ? 2 : 1) {
        MPI_Request request;
        for (int i = 0; i < count; i++)
            in[i] = check_rank * 1000 + i;
        long ranks = (long)check_size * (check_size - 1) / 2 * 1000;
        CHECK_OK(MPI_Allreduce(in, out, count, MPI_LONG, MPI_SUM, comm));
        for (int i = 0; i < count; i++)
            CHECK(out[i] == ranks + (long)i * check_size);
        memset(out, 0, sizeof(long) * (size_t)count);
        CHECK_OK(MPI_Ireduce(in, out, count, MPI_LONG, MPI_SUM, root, comm, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int i = 0; i < count && check_rank == root; i++)
            CHECK(out[i] == ranks + (long)i * check_size);
        CHECK_OK(MPI_Barrier(comm));
        memcpy(out, in, sizeof(long) * (size_t)count);
        CHECK_OK(MPI_Bcast(out, count, MPI_LONG, root, comm));
        for (int i = 0; i < count; i++)
            CHECK(out[i] == root * 1000 + i);
        CHECK_OK(MPI_Allgather(in, count, MPI_LONG, all, count, MPI_LONG, comm));
        for (int from = 0; from < check_size; from++)
            for (int i = 0; i < count; i++)
                CHECK(all[from * count + i] == from * 1000 + i);
    }
    free(in);
    free(out);
    free(all);
}

int main(int argc, char **argv)
{
    static const char *all[] = {
        "allreduce -> recursive-doubling; reduce -> binomial; bcast -> binomial; allgather -> ring",
        "allreduce -> recursive-multiplying-4; reduce -> knomial-4; bcast -> knomial-8; allgather -> bruck",
        "allreduce -> reduce-scatter-allgather; reduce -> flat; bcast -> flat; allgather -> recursive-doubling",
        "allreduce -> circulant; reduce -> circulant-gather; bcast -> pipelined-chain segment=1000; allgather -> circulant",
        "allreduce -> binomial-reduce-bcast\nbcast bytes=..100 -> flat # small\nbcast -> scatter-allgather",
        "allreduce -> reduce-bcast; barrier -> dissemination-4"};
    char value[4096] = "";
    int flag, length = sizeof value, provided;
    check_start(&argc, &argv);
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    try_all(comm, 100);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rules(comm, all[i]);
        try_all(comm, 0);
        try_all(comm, 3);
        try_all(comm, 20000);
    }

    MPI_Info told;
    CHECK_OK(MPI_Comm_get_info(comm, &told));
    CHECK_OK(MPI_Info_get_string(told, "weft_collectives", &length, value, &flag));
    CHECK(flag && strcmp(value, all[5]) == 0);
    CHECK_OK(MPI_Info_free(&told));

    /* A duplicate begins without them. */
    MPI_Comm again;
    CHECK_OK(MPI_Comm_dup(comm, &again));
    try_all(again, 50);
    CHECK_OK(MPI_Comm_free(&again));

    MPI_Info info;
    char text[MPI_MAX_ERROR_STRING];
    int class, rc;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "weft_collectives", "bcast -> flat\nbcast -> magic"));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    rc = MPI_Comm_set_info(comm, info);
    CHECK_OK(MPI_Error_class(rc, &class));
    CHECK(class == MPI_ERR_INFO_VALUE);
    CHECK_OK(MPI_Error_string(rc, text, &length));
    CHECK(strstr(text, "weft_collectives, line 2: bcast has no algorithm \"magic\"") != NULL);
    CHECK_OK(MPI_Info_free(&info));
    try_all(comm, 7);
    CHECK_OK(MPI_Comm_free(&comm));

    /* The variable of the job, as the tool interface has it. */
    int index, count;
    MPI_T_cvar_handle handle;
    CHECK_OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    CHECK_OK(MPI_T_cvar_get_index("weft_collectives", &index));
    CHECK_OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
    CHECK(count <= (int)sizeof value);
    CHECK_OK(MPI_T_cvar_read(handle, value));
    CHECK(strstr(value, "allreduce bytes=64K..->reduce-scatter-allgather") != NULL);
    CHECK_OK(MPI_T_cvar_handle_free(&handle));
    CHECK_OK(MPI_T_finalize());
    return check_end();
}
