/* One persistent alltoall under two rules, by turns in one job: what the choice of an algorithm is worth. Weft's info key
 * weft_collectives gives each communicator its rule; another MPI runs the same twice.
 *
 *     mpiexec -n 2 ./rules "alltoall -> spread" "alltoall -> puts" [ROUNDS [STARTS]]
 *
 * Printed for each length: the median over the rounds of a start's microseconds (the slowest rank's), and the packets that rank 0's
 * network interface (eth0, if there is one) sent and received for a start.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RULES = 2, MOST_ROUNDS = 400 };

static const int lengths[] = { 8, 1024, 8192, 65536, 262144 };

static int rank, ranks;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Packets of eth0 so far, both ways. */
static double packets(void)
{
    char line[512];
    double in = 0, out = 0;
    FILE *file = fopen("/proc/self/net/dev", "r");
    while (file && fgets(line, sizeof line, file)) {
        char *at = strstr(line, "eth0:");
        if (at && sscanf(at + 5, "%*s %lf %*s %*s %*s %*s %*s %*s %*s %lf", &in, &out) == 2)
            break;
    }
    if (file)
        fclose(file);
    return in + out;
}

static MPI_Comm with_rule(const char *rule)
{
    MPI_Info info;
    MPI_Comm comm;
    MPI_Info_create(&info);
    MPI_Info_set(info, "weft_collectives", rule);
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    return comm;
}

/* What a rule of one line says is taken. */
static const char *short_name(const char *rule)
{
    const char *arrow = strstr(rule, "-> ");
    return arrow ? arrow + 3 : rule;
}

static void run(MPI_Request *request, int starts)
{
    for (int i = 0; i < starts; i++) {
        MPI_Start(request);
        MPI_Wait(request, MPI_STATUS_IGNORE);
    }
}

static void check(const unsigned char *recv, int length, int number, const char *rule)
{
    for (int from = 0; from < ranks; from++)
        for (int i = 0; i < length; i++)
            if (recv[(size_t)from * (size_t)length + (size_t)i] != (unsigned char)(from * 7 + rank * 31 + i + number)) {
                fprintf(stderr, "rank %d: wrong byte %d from rank %d by %s\n", rank, i, from, rule);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
}

static void compare(MPI_Comm *comms, char **rules, int length, int rounds, int starts)
{
    static double times[RULES][MOST_ROUNDS];
    double sent[RULES] = { 0 };
    unsigned char *send[RULES], *recv[RULES];
    size_t bytes = (size_t)length * (size_t)ranks;
    MPI_Request requests[RULES];
    for (int k = 0; k < RULES; k++) {
        send[k] = malloc(bytes);
        recv[k] = calloc(bytes, 1);
        for (int to = 0; to < ranks; to++)
            for (int i = 0; i < length; i++)
                send[k][(size_t)to * (size_t)length + (size_t)i] = (unsigned char)(rank * 7 + to * 31 + i + k);
        MPI_Alltoall_init(send[k], length, MPI_BYTE, recv[k], length, MPI_BYTE, comms[k], MPI_INFO_NULL, &requests[k]);
        run(&requests[k], starts < 20 ? starts : 20);
        check(recv[k], length, k, rules[k]);
    }
    for (int round = 0; round < rounds; round++)
        for (int turn = 0; turn < RULES; turn++) {
            int k = (turn + round) % RULES;
            MPI_Barrier(MPI_COMM_WORLD);
            double before = packets(), begun = MPI_Wtime();
            run(&requests[k], starts);
            double mine = (MPI_Wtime() - begun) / starts * 1e6;
            sent[k] += packets() - before;
            MPI_Allreduce(&mine, &times[k][round], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        }
    if (rank == 0)
        printf("%8d", length);
    for (int k = 0; k < RULES; k++) {
        qsort(times[k], (size_t)rounds, sizeof(double), ascending);
        if (rank == 0)
            printf("%12.2f%10.1f", times[k][rounds / 2], sent[k] / rounds / starts);
        MPI_Request_free(&requests[k]);
        free(send[k]);
        free(recv[k]);
    }
    if (rank == 0) {
        printf("%8.2f\n", times[1][rounds / 2] / times[0][rounds / 2]);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comms[RULES];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int rounds = argc > 3 ? atoi(argv[3]) : 40, starts = argc > 4 ? atoi(argv[4]) : 50;
    if (argc < 3 || rounds < 1 || rounds > MOST_ROUNDS || starts < 1) {
        if (rank == 0)
            fprintf(stderr, "rules: \"RULE\" \"RULE\" [ROUNDS, at most %d [STARTS]]\n", MOST_ROUNDS);
        MPI_Finalize();
        return 2;
    }
    for (int k = 0; k < RULES; k++)
        comms[k] = with_rule(argv[1 + k]);
    if (rank == 0)
        printf("%d ranks, %d rounds of %d starts\n%8s%12s%10s%12s%10s%8s\n", ranks, rounds, starts, "bytes", short_name(argv[1]),
               "packets", short_name(argv[2]), "packets", "ratio");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        compare(comms, &argv[1], lengths[i], rounds, lengths[i] > 65536 ? (starts + 4) / 5 : starts);
    for (int k = 0; k < RULES; k++)
        MPI_Comm_free(&comms[k]);
    MPI_Finalize();
    return 0;
}
