/* Example 11.6: a buffer that is attached when MPI_Finalize is called is the program's again when it returns, though nobody detached it; what
 * was sent from it arrives, also when its receiver comes only while the sender is in MPI_Finalize. Buffers of the process and, where there
 * are such, of communicators. Rank 0 returns from MPI_Finalize (example 11.8).
 *
 * Covers: 11.2.2, 3.6, 2.9
 * Ranks: 2 3 5
 * Leaves: yes
 */
#include "check.h"

enum { MESSAGES = 40, NUMBERS = 3000 };

static int numbers[NUMBERS];

static int number_of(int source, int message, int i)
{
    return source * 1000003 + message * 4099 + i;
}

static void send_all(MPI_Comm comm)
{
    for (int message = 0; message < MESSAGES; message++) {
        for (int i = 0; i < NUMBERS; i++) numbers[i] = number_of(check_rank, message, i);
        CHECK_OK(MPI_Bsend(numbers, NUMBERS, MPI_INT, 0, message, comm));
    }
}

static void receive_all(MPI_Comm comm)
{
    /* The others are in MPI_Finalize by now, or soon. */
    usleep(100000);
    for (int source = check_size - 1; source > 0; source--)
        for (int message = 0; message < MESSAGES; message++) {
            int wrong = 0;
            CHECK_OK(MPI_Recv(numbers, NUMBERS, MPI_INT, source, message, comm, MPI_STATUS_IGNORE));
            for (int i = 0; i < NUMBERS; i++) wrong += numbers[i] != number_of(source, message, i);
            CHECK_INT(wrong, 0);
        }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[2] = {MPI_COMM_WORLD, MPI_COMM_NULL};
    char *buffers[2] = {NULL, NULL};
    int packed, levels = 1;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
#if MPI_41
    levels = 2;
#endif
    CHECK_OK(MPI_Pack_size(NUMBERS, MPI_INT, MPI_COMM_WORLD, &packed));
    int room = MESSAGES * (packed + MPI_BSEND_OVERHEAD);
    for (int level = 0; level < levels; level++) {
        buffers[level] = malloc((size_t)room);
        if (level == 0) CHECK_OK(MPI_Buffer_attach(buffers[level], room));
#if MPI_41
        if (level == 1) CHECK_OK(MPI_Comm_attach_buffer(comms[level], buffers[level], room));
#endif
    }
    for (int level = 0; level < levels; level++) {
        if (check_rank == 0) receive_all(comms[level]);
        else send_all(comms[level]);
    }
    CHECK_OK(MPI_Comm_free(&comms[1]));
    MPI_Finalize();
    /* Ours: what is written there now is in no message, and freeing it takes nothing from MPI. */
    for (int level = 0; level < levels; level++) {
        memset(buffers[level], 0x5a, (size_t)room);
        free(buffers[level]);
    }
    return check_verdict();
}
