/* A stress of real processes: rounds of random operations of every kind between random ranks, known to all from one seed:
 * all modes, blocking and not, persistent, partitioned, buffered, sendrecvs, probes, matched probes, wildcards,
 * cancelled receives, freed requests; completed by any, some, all and tests. Every byte is verified.
 *
 * Covers: 3.4, 3.5, 3.6, 3.7.3, 3.7.5, 3.8.2, 3.8.4, 3.9, 4.2
 * Ranks: 2 3 5 8
 * [MPICH 5.0: its MPI_Testall fails with persistent requests, with no error in any status.]
 * Timeout: 120
 */
#include "check.h"

#define ROUNDS 40
#define MOST 24
#define LONGEST 150000

static uint64_t state;
static unsigned program;

static int below(int bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)((state >> 11) % (uint64_t)bound);
}

/* One message of a round; every rank computes all of them. */
struct message {
    int from, to, tag, length, how, take, partitions;
};

enum { STANDARD, SYNCHRONOUS, BUFFERED, READY, PERSISTENT, PERSISTENT_SYNCHRONOUS, PARTITIONED, FREED, WAYS };
enum { IRECV, ANY_SOURCE, PERSISTENT_RECV, PROBED, MATCHED, TAKES };

static struct message messages[MOST];
static char *out[MOST], *in[MOST];

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    program = check_seed();
    static const int borders[] = {0, 1, 8, 64, 1000, 8192, 40000, 65536, LONGEST - 3};
    int size = MOST * (LONGEST + MPI_BSEND_OVERHEAD);
    void *space = check_alloc((size_t)size), *address;
    for (int i = 0; i < MOST; i++) {
        out[i] = check_alloc(LONGEST);
        in[i] = check_alloc(LONGEST);
    }
    CHECK_OK(MPI_Buffer_attach(space, size));
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Request sends[MOST], receives[MOST + 2], cancelled[2];
        MPI_Status statuses[MOST + 2], status;
        int count = 4 + (state = 0x9e3779b97f4a7c15u * ((uint64_t)program * 1000003u + (uint64_t)(round + 1)), below(MOST - 4)), flag;
        for (int i = 0; i < count; i++) {
            struct message *m = &messages[i];
            *m = (struct message){below(check_size), below(check_size), i, borders[below(9)] + below(3), below(WAYS),
                                  below(TAKES), 1 + below(7)};
            if (m->how == PARTITIONED) m->length = m->length / m->partitions * m->partitions;
            /* A ready send needs its receive. */
            if (m->how == READY && m->take >= PROBED) m->take = IRECV;
        }
        /* Receives that are posted first. */
        for (int i = 0; i < count; i++) {
            struct message *m = &messages[i];
            receives[i] = MPI_REQUEST_NULL;
            if (m->to != check_rank) continue;
            memset(in[i], 0x77, LONGEST);
            if (m->how == PARTITIONED) {
                int parts = m->length % (2 * m->partitions) == 0 ? 2 * m->partitions : m->partitions;
                CHECK_OK(MPI_Precv_init(in[i], parts, m->length / parts, MPI_CHAR, m->from, m->tag, MPI_COMM_WORLD,
                                        MPI_INFO_NULL, &receives[i]));
                CHECK_OK(MPI_Start(&receives[i]));
            } else if (m->take == PERSISTENT_RECV) {
                CHECK_OK(MPI_Recv_init(in[i], LONGEST, MPI_CHAR, m->from, m->tag, MPI_COMM_WORLD, &receives[i]));
                CHECK_OK(MPI_Start(&receives[i]));
            } else if (m->take < PROBED)
                CHECK_OK(MPI_Irecv(in[i], LONGEST, MPI_CHAR, m->take == ANY_SOURCE ? MPI_ANY_SOURCE : m->from, m->tag,
                                   MPI_COMM_WORLD, &receives[i]));
        }
        for (int k = 0; k < 2; k++)
            CHECK_OK(MPI_Irecv(space, 0, MPI_CHAR, MPI_ANY_SOURCE, 1000 + k, MPI_COMM_WORLD, &cancelled[k]));
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        for (int i = 0; i < count; i++) {
            struct message *m = &messages[i];
            sends[i] = MPI_REQUEST_NULL;
            if (m->from != check_rank) continue;
            fill(out[i], (size_t)m->length, (unsigned)(round * 100 + i));
#define ARGUMENTS out[i], m->length, MPI_CHAR, m->to, m->tag, MPI_COMM_WORLD
            switch (m->how) {
            case STANDARD: CHECK_OK(MPI_Isend(ARGUMENTS, &sends[i])); break;
            case SYNCHRONOUS: CHECK_OK(MPI_Issend(ARGUMENTS, &sends[i])); break;
            case BUFFERED:
                CHECK_OK(MPI_Ibsend(ARGUMENTS, &sends[i]));
                CHECK_OK(MPI_Wait(&sends[i], MPI_STATUS_IGNORE));
                memset(out[i], 0, (size_t)m->length);
                break;
            case READY: CHECK_OK(MPI_Irsend(ARGUMENTS, &sends[i])); break;
            case PERSISTENT:
                CHECK_OK(MPI_Send_init(ARGUMENTS, &sends[i]));
                CHECK_OK(MPI_Start(&sends[i]));
                break;
            case PERSISTENT_SYNCHRONOUS:
                CHECK_OK(MPI_Ssend_init(ARGUMENTS, &sends[i]));
                CHECK_OK(MPI_Start(&sends[i]));
                break;
            case PARTITIONED:
                CHECK_OK(MPI_Psend_init(out[i], m->partitions, m->length / m->partitions, MPI_CHAR, m->to, m->tag,
                                        MPI_COMM_WORLD, MPI_INFO_NULL, &sends[i]));
                CHECK_OK(MPI_Start(&sends[i]));
                for (int p = m->partitions - 1; p >= 0; p--) CHECK_OK(MPI_Pready(p, sends[i]));
                break;
            default:
                CHECK_OK(MPI_Isend(ARGUMENTS, &sends[i]));
                CHECK_OK(MPI_Request_free(&sends[i]));
            }
        }
        /* A shift that everybody takes part in, between the others. */
        int shift = 1 + below(check_size), value = check_rank, got = -1;
        CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, (check_rank + shift) % check_size, 2000, &got, 1, MPI_INT,
                              (check_rank + check_size - shift % check_size) % check_size, 2000, MPI_COMM_WORLD, &status));
        CHECK_INT(got, (check_rank + check_size - shift % check_size) % check_size);
        for (int k = 0; k < 2; k++) {
            CHECK_OK(MPI_Cancel(&cancelled[k]));
            CHECK_OK(MPI_Wait(&cancelled[k], &status));
            CHECK_OK(MPI_Test_cancelled(&status, &flag));
            CHECK(flag);
        }
        /* Those that are probed for. */
        for (int i = count - 1; i >= 0; i--) {
            struct message *m = &messages[i];
            if (m->to != check_rank || m->how == PARTITIONED || m->take < PROBED) continue;
            int length;
            if (m->take == PROBED) {
                CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, m->tag, MPI_COMM_WORLD, &status));
                CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &length));
                CHECK_OK(MPI_Irecv(in[i], length, MPI_CHAR, status.MPI_SOURCE, m->tag, MPI_COMM_WORLD, &receives[i]));
            } else {
                MPI_Message handle;
                CHECK_OK(MPI_Mprobe(m->from, m->tag, MPI_COMM_WORLD, &handle, &status));
                CHECK_OK(MPI_Get_count(&status, MPI_CHAR, &length));
                CHECK_OK(MPI_Imrecv(in[i], length, MPI_CHAR, &handle, &receives[i]));
            }
            CHECK_INT(length, m->length);
        }
        /* Completed in four ways. */
        int index, indices[MOST + 2], some;
        MPI_Request copies[MOST + 2];
        memcpy(copies, receives, sizeof copies);
        switch (round % 4) {
        case 0: CHECK_OK(MPI_Waitall(count, receives, statuses)); break;
        case 1:
            do {
                CHECK_OK(MPI_Waitany(count, receives, &index, &status));
                if (index != MPI_UNDEFINED) statuses[index] = status;
            } while (index != MPI_UNDEFINED);
            break;
        case 2:
            do {
                MPI_Status found[MOST + 2];
                CHECK_OK(MPI_Waitsome(count, receives, &some, indices, found));
                for (int k = 0; some != MPI_UNDEFINED && k < some; k++) statuses[indices[k]] = found[k];
            } while (some != MPI_UNDEFINED);
            break;
        default:
            for (flag = 0; !flag;) CHECK_OK(MPI_Testall(count, receives, &flag, statuses));
        }
        CHECK_OK(MPI_Waitall(count, sends, MPI_STATUSES_IGNORE));
        for (int i = 0; i < count; i++) {
            struct message *m = &messages[i];
            if (m->to == check_rank) {
                if (m->how != PARTITIONED) CHECK_STATUS(statuses[i], m->from, m->tag, MPI_CHAR, m->length);
                CHECK_FILL(in[i], m->length, round * 100 + i);
                CHECK_BYTES(in[i] + m->length, 0x77, m->take >= PROBED && m->how != PARTITIONED ? 0 : LONGEST - m->length);
            }
            if (receives[i] != MPI_REQUEST_NULL) {
                CHECK(receives[i] == copies[i]);
                CHECK_OK(MPI_Request_free(&receives[i]));
            }
            if (sends[i] != MPI_REQUEST_NULL) CHECK_OK(MPI_Request_free(&sends[i]));
        }
        CHECK_OK(MPI_Buffer_detach(&address, &size));
        CHECK_OK(MPI_Buffer_attach(address, size));
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    free(address);
    return check_end();
}
