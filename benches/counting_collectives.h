/* The rows of instructions.c that call collectives. It includes this behind what they use: COMM and let_other(). */

/* Starting collectives that were called before: their schedules are kept. */
static void ibcast_call(int size)
{
    MPI_Request request;
    if (rank == 0) {
        COUNT(MPI_Ibcast(data, size, MPI_CHAR, 0, COMM, &request));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        let_other();
    } else {
        await_other();
        MPI_Ibcast(data, size, MPI_CHAR, 0, COMM, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        done();
    }
}

static void ialltoallv_call(int size)
{
    MPI_Request request;
    int counts[2] = {size, size}, places[2] = {0, size};
    if (rank == 0) {
        COUNT(MPI_Ialltoallv(data, counts, places, MPI_CHAR, data + 64, counts, places, MPI_CHAR, COMM, &request));
        let_other();
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        await_other();
        MPI_Ialltoallv(data, counts, places, MPI_CHAR, data + 64, counts, places, MPI_CHAR, COMM, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        done();
    }
}

static MPI_Request persistent_bcast = MPI_REQUEST_NULL;

static void start_of_bcast(int size)
{
    if (persistent_bcast == MPI_REQUEST_NULL)
        MPI_Bcast_init(data, size, MPI_CHAR, 0, COMM, MPI_INFO_NULL, &persistent_bcast);
    if (rank == 0) {
        COUNT(MPI_Start(&persistent_bcast));
        MPI_Wait(&persistent_bcast, MPI_STATUS_IGNORE);
        let_other();
    } else {
        await_other();
        MPI_Start(&persistent_bcast);
        MPI_Wait(&persistent_bcast, MPI_STATUS_IGNORE);
        done();
    }
}

#ifndef LANES
/* Collectives inside a node in which one side waits for nobody, so that it is known to have been there. */
static void bcast_call(int size)
{
    static int met;
    /* The first calls agree on memory, for which all wait. */
    for (; met < 3; met++)
        MPI_Barrier(COMM);
    if (rank == 0) {
        COUNT(MPI_Bcast(data, size, MPI_CHAR, 0, COMM));
        let_other();
    } else {
        await_other();
        MPI_Bcast(data, size, MPI_CHAR, 0, COMM);
        done();
    }
}

static void reduce_of_arrived(int size)
{
    double *sum = (double *)data + MOST / sizeof(double) / 2;
    if (rank == 0) {
        let_other();
        COUNT(MPI_Reduce(data, sum, size / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, 0, COMM));
    } else {
        await_other();
        MPI_Reduce(data, NULL, size / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, 0, COMM);
        done();
    }
}

/* Collectives in which each waits for the other: rank 1 has the given time to be there before rank 0, and after much of it it sleeps and
 * must be woken. So the least of all calls counts, each with another time. */
static void meeting(int size, void (*call)(int))
{
    static int meetings;
    if (rank == 0) {
        give_turn(++turn);
        usleep((useconds_t)(meetings++ % CALLS * 5));
        COUNT(call(size));
        await_turn(++turn);
    } else {
        await_other();
        call(size);
        done();
    }
}

static void barrier(int size)
{
    (void)size;
    MPI_Barrier(COMM);
}

static void allreduce(int size)
{
    double *sum = (double *)data + MOST / sizeof(double) / 2;
    MPI_Allreduce(data, sum, size / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, COMM);
}

static void barrier_of_arrived(int size)
{
    meeting(size, barrier);
}

/* A start and its wait. Both make the request first: that is collective. Of the allreduces the short one goes by messages, the long one by
 * cells of its own. */
static MPI_Request persistent_barrier = MPI_REQUEST_NULL;
static MPI_Request persistent_allreduce[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

static void start_barrier(int size)
{
    (void)size;
    MPI_Start(&persistent_barrier);
    MPI_Wait(&persistent_barrier, MPI_STATUS_IGNORE);
}

static void persistent_barrier_of_arrived(int size)
{
    if (persistent_barrier == MPI_REQUEST_NULL)
        MPI_Barrier_init(COMM, MPI_INFO_NULL, &persistent_barrier);
    meeting(size, start_barrier);
}

static MPI_Request *allreduce_of(int size)
{
    return &persistent_allreduce[size > 8];
}

static void start_allreduce(int size)
{
    MPI_Start(allreduce_of(size));
    MPI_Wait(allreduce_of(size), MPI_STATUS_IGNORE);
}

static void persistent_allreduce_of_arrived(int size)
{
    double *sum = (double *)data + MOST / sizeof(double) / 2;
    if (*allreduce_of(size) == MPI_REQUEST_NULL)
        MPI_Allreduce_init(data, sum, size / (int)sizeof(double), MPI_DOUBLE, MPI_SUM, COMM, MPI_INFO_NULL, allreduce_of(size));
    meeting(size, start_allreduce);
}

static void allreduce_of_arrived(int size)
{
    meeting(size, allreduce);
}

static void free_collectives(void)
{
    MPI_Request_free(&persistent_barrier);
    MPI_Request_free(&persistent_allreduce[0]);
    MPI_Request_free(&persistent_allreduce[1]);
}
#endif
