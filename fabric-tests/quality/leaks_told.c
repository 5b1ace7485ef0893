/* With WEFT_LEAKS a process says at the end what the program did not free: kind, number, name, and where it was made.
 *
 * Covers: 11.2.2
 * Ranks: 1 2
 * Env: WEFT_LEAKS=yes
 * Stderr: ends with what the program did not free (WEFT_LEAKS):
 * Stderr: 1 communicator: "forgotten" of
 * Stderr: made by MPI_Comm_dup at leaks_told
 * Stderr: 100 datatypes: 100 times unnamed, made by MPI_Type_contiguous at leaks_told
 * Stderr: 2 requests: inactive persistent request, made by MPI_Send_init
 * Stderr: receive(source=0, tag=3, MPI_COMM_WORLD, room for 4 bytes)
 * Stderr: 1 message not received: a message with tag 9 from rank 0 of MPI_COMM_WORLD (4 bytes)
 * Stderr: 1 piece of memory of MPI_Alloc_mem: 1000 bytes
 * Stderr: 1 window: unnamed of
 * Stderr: 1 info object: with the key "color", made by MPI_Info_create
 * Stderr: 1 attached buffer: 4096 bytes, of the process
 * Stderr: 1 error handler: made by MPI_Comm_create_errhandler
 * Stderr: 1 operation: made by MPI_Op_create
 * Absent: of 8 ranks
 */
#include "check.h"

static void handler(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
}

static void combine(void *in, void *out, int *count, MPI_Datatype *type)
{
    (void)in;
    (void)out;
    (void)count;
    (void)type;
}

int main(int argc, char **argv)
{
    static char buffer[4096];
    int value = 0;
    MPI_Comm comm, freed;
    MPI_Datatype type;
    MPI_Request receive, persistent;
    MPI_Info info;
    MPI_Win win;
    MPI_Errhandler errhandler;
    MPI_Op op;
    void *memory;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_name(comm, "forgotten"));
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &freed));
    CHECK_OK(MPI_Comm_free(&freed));
    for (int i = 0; i < 100; i++) CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK_OK(MPI_Irecv(&value, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &receive));
    CHECK_OK(MPI_Send_init(&value, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &persistent));
    if (check_rank == 0)
        for (int dest = 0; dest < check_size; dest++)
            CHECK_OK(MPI_Send(&value, 1, MPI_INT, dest, 9, MPI_COMM_WORLD));
    CHECK_OK(MPI_Alloc_mem(1000, MPI_INFO_NULL, &memory));
    CHECK_OK(MPI_Win_create(buffer, 10, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "color", "red"));
    CHECK_OK(MPI_Buffer_attach(buffer, sizeof buffer));
    CHECK_OK(MPI_Comm_create_errhandler(handler, &errhandler));
    CHECK_OK(MPI_Op_create(combine, 1, &op));
    return check_end();
}
