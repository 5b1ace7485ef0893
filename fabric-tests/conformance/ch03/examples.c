/* The correct examples of chapter 3, in C, with their outcome checked: 3.1, 3.6 to 3.8, 3.11 to 3.19 (3.2, 3.4 and 3.5 are in
 * packed_and_bytes.c; 3.3, 3.9, 3.10 and 3.20 are examples of errors).
 *
 * Covers: 3.1, 3.4, 3.5, 3.6, 3.7.3, 3.7.4, 3.7.5, 3.8.1
 * Ranks: 3 4
 */
#include "check.h"

#define W MPI_COMM_WORLD
#define I MPI_STATUS_IGNORE
#define COUNT 30000

static float buf1[COUNT], buf2[COUNT];

static void set(float *buffer, float first)
{
    for (int i = 0; i < COUNT; i++) buffer[i] = first + (float)i;
}

static void see(const float *buffer, float first)
{
    for (int i = 0; i < COUNT; i++)
        if (buffer[i] != first + (float)i) {
            CHECK_FAIL("element %d is %g, wanted %g", i, (double)buffer[i], (double)(first + (float)i));
            return;
        }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int rank = check_rank;
    MPI_Status status;
    MPI_Request request, r1, r2;
    void *space = check_alloc(1000000), *address;
    int size = 1000000;
    CHECK_OK(MPI_Buffer_attach(space, size));

    /* 3.1 */
    char message[20] = "";
    if (rank == 0) {
        strcpy(message, "Hello, there");
        CHECK_OK(MPI_Send(message, (int)strlen(message) + 1, MPI_CHAR, 1, 99, W));
    } else if (rank == 1) {
        CHECK_OK(MPI_Recv(message, 20, MPI_CHAR, 0, 99, W, &status));
        CHECK_STR(message, "Hello, there");
        CHECK_STATUS(status, 0, 99, MPI_CHAR, 13);
    }
    /* 3.6 */
    if (rank == 0) {
        set(buf1, 1);
        CHECK_OK(MPI_Bsend(buf1, COUNT, MPI_FLOAT, 1, 1, W));
        set(buf1, 2);
        CHECK_OK(MPI_Bsend(buf1, COUNT, MPI_FLOAT, 1, 1, W));
    } else if (rank == 1) {
        CHECK_OK(MPI_Recv(buf1, COUNT, MPI_FLOAT, 0, MPI_ANY_TAG, W, I));
        CHECK_OK(MPI_Recv(buf2, COUNT, MPI_FLOAT, 0, 1, W, I));
        see(buf1, 1);
        see(buf2, 2);
    }
    /* 3.7 */
    if (rank == 0) {
        set(buf1, 3);
        set(buf2, 4);
        CHECK_OK(MPI_Bsend(buf1, COUNT, MPI_FLOAT, 1, 1, W));
        CHECK_OK(MPI_Ssend(buf2, COUNT, MPI_FLOAT, 1, 2, W));
    } else if (rank == 1) {
        CHECK_OK(MPI_Recv(buf1, COUNT, MPI_FLOAT, 0, 2, W, I));
        CHECK_OK(MPI_Recv(buf2, COUNT, MPI_FLOAT, 0, 1, W, I));
        see(buf1, 4);
        see(buf2, 3);
    }
    /* 3.8, also with synchronous sends. */
    for (int synchronous = 0; synchronous < 2; synchronous++) {
        set(buf1, (float)rank);
        if (rank == 0) {
            CHECK_OK((synchronous ? MPI_Ssend : MPI_Send)(buf1, COUNT, MPI_FLOAT, 1, 1, W));
            CHECK_OK(MPI_Recv(buf2, COUNT, MPI_FLOAT, 1, 1, W, I));
            see(buf2, 1);
        } else if (rank == 1) {
            CHECK_OK(MPI_Recv(buf2, COUNT, MPI_FLOAT, 0, 1, W, I));
            CHECK_OK((synchronous ? MPI_Ssend : MPI_Send)(buf1, COUNT, MPI_FLOAT, 0, 1, W));
            see(buf2, 0);
        }
    }
    /* 3.13 */
    if (rank == 0) {
        set(buf1, 5);
        CHECK_OK(MPI_Isend(buf1, 10, MPI_FLOAT, 1, 1, W, &request));
        CHECK_OK(MPI_Wait(&request, &status));
    } else if (rank == 1) {
        CHECK_OK(MPI_Irecv(buf2, 15, MPI_FLOAT, 0, 1, W, &request));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_STATUS(status, 0, 1, MPI_FLOAT, 10);
        CHECK(buf2[9] == 14);
    }
    /* 3.14 */
    float outval = (float)rank, inval = -1;
    int n = 100;
    if (rank == 0) {
        for (int i = 0; i < n; i++) {
            outval = 0;
            CHECK_OK(MPI_Isend(&outval, 1, MPI_FLOAT, 1, 0, W, &request));
            CHECK_OK(MPI_Request_free(&request));
            CHECK_OK(MPI_Irecv(&inval, 1, MPI_FLOAT, 1, 0, W, &request));
            CHECK_OK(MPI_Wait(&request, &status));
            CHECK(inval == 1);
        }
    } else if (rank == 1) {
        CHECK_OK(MPI_Irecv(&inval, 1, MPI_FLOAT, 0, 0, W, &request));
        CHECK_OK(MPI_Wait(&request, &status));
        for (int i = 0; i < n - 1; i++) {
            CHECK_OK(MPI_Isend(&outval, 1, MPI_FLOAT, 0, 0, W, &request));
            CHECK_OK(MPI_Request_free(&request));
            CHECK_OK(MPI_Irecv(&inval, 1, MPI_FLOAT, 0, 0, W, &request));
            CHECK_OK(MPI_Wait(&request, &status));
        }
        CHECK_OK(MPI_Isend(&outval, 1, MPI_FLOAT, 0, 0, W, &request));
        CHECK_OK(MPI_Wait(&request, &status));
    }
    /* 3.15, waited for in both orders. */
    for (int backwards = 0; backwards < 2; backwards++) {
        float a = 7, b = 8;
        if (rank == 0) {
            CHECK_OK(MPI_Isend(&a, 1, MPI_FLOAT, 1, 0, W, &r1));
            CHECK_OK(MPI_Isend(&b, 1, MPI_FLOAT, 1, 0, W, &r2));
        } else if (rank == 1) {
            a = b = 0;
            CHECK_OK(MPI_Irecv(&a, 1, MPI_FLOAT, 0, MPI_ANY_TAG, W, &r1));
            CHECK_OK(MPI_Irecv(&b, 1, MPI_FLOAT, 0, 0, W, &r2));
        } else
            r1 = r2 = MPI_REQUEST_NULL;
        CHECK_OK(MPI_Wait(backwards ? &r2 : &r1, &status));
        CHECK_OK(MPI_Wait(backwards ? &r1 : &r2, &status));
        if (rank == 1) CHECK(a == 7 && b == 8);
    }
    /* 3.16, with a short and a long message. */
    for (int count = 1; count <= COUNT; count += COUNT - 1) {
        float b = 9;
        if (rank == 0) {
            set(buf1, 6);
            CHECK_OK(MPI_Ssend(buf1, count, MPI_FLOAT, 1, 0, W));
            CHECK_OK(MPI_Send(&b, 1, MPI_FLOAT, 1, 1, W));
        } else if (rank == 1) {
            CHECK_OK(MPI_Irecv(buf2, count, MPI_FLOAT, 0, 0, W, &request));
            CHECK_OK(MPI_Recv(&b, 1, MPI_FLOAT, 0, 1, W, &status));
            CHECK_OK(MPI_Wait(&request, &status));
            CHECK(buf2[count - 1] == 6 + (float)(count - 1));
        }
    }
    /* 3.17 and 3.18, which end when every client was served often enough. */
    for (int some = 0; some < 2; some++) {
        enum { EACH = 200, MOST = 8 };
        int server = 0, clients = check_size - 1;
        CHECK_OK(MPI_Barrier(W));
        if (rank > server) {
            for (int i = 0; i < EACH; i++) {
                int a[2] = {rank, i};
                CHECK_OK(MPI_Isend(a, 2, MPI_INT, 0, 5, W, &request));
                CHECK_OK(MPI_Wait(&request, &status));
            }
        } else {
            int a[MOST][2], served[MOST] = {0}, indices[MOST], done = 1;
            MPI_Request list[MOST];
            MPI_Status statuses[MOST];
            for (int i = 0; i < clients; i++) CHECK_OK(MPI_Irecv(a[i], 2, MPI_INT, i + 1, 5, W, &list[i]));
            for (int all = 0; all < clients * EACH; all += done) {
                if (some)
                    CHECK_OK(MPI_Waitsome(clients, list, &done, indices, statuses));
                else
                    CHECK_OK(MPI_Waitany(clients, list, &indices[0], &statuses[0]));
                CHECK(done >= 1);
                for (int k = 0; k < done; k++) {
                    int client = indices[k];
                    CHECK_INT(statuses[k].MPI_SOURCE, client + 1);
                    CHECK_INT(a[client][0], client + 1);
                    CHECK_INT(a[client][1], served[client]++);
                    if (served[client] < EACH) CHECK_OK(MPI_Irecv(a[client], 2, MPI_INT, client + 1, 5, W, &list[client]));
                }
            }
        }
    }
    /* 3.19 */
    int i = 11;
    float x = 12.5f;
    if (rank == 0) CHECK_OK(MPI_Send(&i, 1, MPI_INT, 2, 0, W));
    if (rank == 1) CHECK_OK(MPI_Send(&x, 1, MPI_FLOAT, 2, 0, W));
    if (rank == 2) {
        i = 0;
        x = 0;
        for (int k = 0; k < 2; k++) {
            CHECK_OK(MPI_Probe(MPI_ANY_SOURCE, 0, W, &status));
            if (status.MPI_SOURCE == 0)
                CHECK_OK(MPI_Recv(&i, 1, MPI_INT, 0, 0, W, &status));
            else
                CHECK_OK(MPI_Recv(&x, 1, MPI_FLOAT, 1, 0, W, &status));
        }
        CHECK(i == 11 && x == 12.5f);
    }
    /* 3.11: the process's buffer goes and comes. */
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == space && size == 1000000);
    CHECK_OK(MPI_Buffer_attach(address, size));
    CHECK_OK(MPI_Buffer_detach(&address, &size));
#if MPI_41
    /* 3.12 */
    char *first = check_alloc(10000 + MPI_BSEND_OVERHEAD), *second = check_alloc(20000 + MPI_BSEND_OVERHEAD);
    MPI_Comm world_dup;
    CHECK_OK(MPI_Comm_dup(W, &world_dup));
    CHECK_OK(MPI_Comm_attach_buffer(W, second, 20000 + MPI_BSEND_OVERHEAD));
    CHECK_OK(MPI_Buffer_attach(first, 10000 + MPI_BSEND_OVERHEAD));
    set(buf1, 10);
    CHECK_OK(MPI_Bsend(buf1, 5000, MPI_FLOAT, rank, 0, W));
    CHECK_OK(MPI_Bsend(buf1, 2500, MPI_FLOAT, rank, 0, world_dup));
    CHECK_OK(MPI_Recv(buf2, 2500, MPI_FLOAT, rank, 0, world_dup, &status));
    CHECK_OK(MPI_Recv(buf2, 5000, MPI_FLOAT, rank, 0, W, &status));
    CHECK_STATUS(status, rank, 0, MPI_FLOAT, 5000);
    CHECK_OK(MPI_Comm_detach_buffer(W, &address, &size));
    CHECK(address == second);
    CHECK_OK(MPI_Buffer_detach(&address, &size));
    CHECK(address == first);
    CHECK_OK(MPI_Comm_free(&world_dup));
    free(first);
    free(second);
#endif
    free(space);
    return check_end();
}
