/* Handle and status conversions (19.3.4, 19.3.5, MPI 5.0 chapter ABI), addresses (5.1.5) and the clock (9.6). None of
   them needs an initialised MPI. Prints one line for each thing that is wrong. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(what)                                        \
    do {                                                   \
        if (!(what)) {                                     \
            printf("line %d: %s\n", __LINE__, #what);      \
            failures++;                                    \
        }                                                  \
    } while (0)

/* A predefined handle keeps its ABI value; a run-time handle, its 31-bit number; what is no handle becomes 0. */
#define HANDLES(type, prefix, constant, value)                                     \
    do {                                                                           \
        const type runtime = (type)0x0b700012;                                     \
        const type foreign = (type)0x7fff12345678;                                 \
        CHECK(prefix##_c2f(constant) == (value));                                  \
        CHECK(prefix##_toint(constant) == (value));                                \
        CHECK(prefix##_f2c(value) == constant);                                    \
        CHECK(prefix##_fromint(value) == constant);                                \
        CHECK(prefix##_f2c(prefix##_c2f(runtime)) == runtime);                     \
        CHECK(prefix##_fromint(prefix##_toint(runtime)) == runtime);               \
        CHECK(prefix##_c2f(foreign) == 0);                                         \
        CHECK(prefix##_f2c(-7) == (type)0);                                        \
        CHECK(P##prefix##_f2c(value) == constant);                                 \
    } while (0)

static void statuses(void)
{
    MPI_Status status, back;
    MPI_Fint array[MPI_F_STATUS_SIZE];
    MPI_F08_status f08;
    int i;

    status.MPI_SOURCE = 3;
    status.MPI_TAG = 77;
    status.MPI_ERROR = MPI_ERR_TRUNCATE;
    for (i = 0; i < 5; i++)
        status.MPI_internal[i] = 1000 + i;

    CHECK(MPI_Status_c2f(&status, array) == MPI_SUCCESS);
    CHECK(array[MPI_F_SOURCE] == 3 && array[MPI_F_TAG] == 77 && array[MPI_F_ERROR] == MPI_ERR_TRUNCATE);
    memset(&f08, 0, sizeof f08);
    CHECK(MPI_Status_f2f08(array, &f08) == MPI_SUCCESS);
    CHECK(f08.MPI_SOURCE == 3 && f08.MPI_TAG == 77 && f08.MPI_ERROR == MPI_ERR_TRUNCATE);
    memset(&back, 0, sizeof back);
    CHECK(MPI_Status_f082c(&f08, &back) == MPI_SUCCESS);
    CHECK(memcmp(&status, &back, sizeof status) == 0);
    memset(&f08, 0, sizeof f08);
    CHECK(MPI_Status_c2f08(&status, &f08) == MPI_SUCCESS);
    memset(array, 0, sizeof array);
    CHECK(MPI_Status_f082f(&f08, array) == MPI_SUCCESS);
    memset(&back, 0, sizeof back);
    CHECK(MPI_Status_f2c(array, &back) == MPI_SUCCESS);
    CHECK(memcmp(&status, &back, sizeof status) == 0);
    CHECK(MPI_F_STATUS_IGNORE != array && MPI_F_STATUSES_IGNORE != array && MPI_F08_STATUS_IGNORE != &f08);
    CHECK(MPI_F08_STATUSES_IGNORE != MPI_F08_STATUS_IGNORE && MPI_F_STATUSES_IGNORE != MPI_F_STATUS_IGNORE);
}

static void booleans(void)
{
    int yes = 1, no = 0, got_yes = 9, got_no = 9, is_set = 9;

    CHECK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set) == MPI_SUCCESS);
    CHECK(is_set == 0);
    CHECK(MPI_Abi_set_fortran_booleans(4, &yes, &no) == MPI_SUCCESS);
    CHECK(MPI_Abi_get_fortran_booleans(4, &got_yes, &got_no, &is_set) == MPI_SUCCESS);
    CHECK(is_set == 1 && got_yes == 1 && got_no == 0);
}

int main(void)
{
    double start, tick;

    HANDLES(MPI_Comm, MPI_Comm, MPI_COMM_WORLD, 257);
    HANDLES(MPI_Datatype, MPI_Type, MPI_INT, 521);
    HANDLES(MPI_Errhandler, MPI_Errhandler, MPI_ERRORS_RETURN, 323);
    HANDLES(MPI_File, MPI_File, MPI_FILE_NULL, 280);
    HANDLES(MPI_Group, MPI_Group, MPI_GROUP_EMPTY, 265);
    HANDLES(MPI_Info, MPI_Info, MPI_INFO_ENV, 305);
    HANDLES(MPI_Message, MPI_Message, MPI_MESSAGE_NO_PROC, 297);
    HANDLES(MPI_Op, MPI_Op, MPI_SUM, 33);
    HANDLES(MPI_Request, MPI_Request, MPI_REQUEST_NULL, 384);
    HANDLES(MPI_Session, MPI_Session, MPI_SESSION_NULL, 288);
    HANDLES(MPI_Win, MPI_Win, MPI_WIN_NULL, 272);
    statuses();
    booleans();

    CHECK(MPI_Aint_add((MPI_Aint)&failures, 4) == (MPI_Aint)((char *)&failures + 4));
    CHECK(MPI_Aint_diff(MPI_Aint_add((MPI_Aint)&failures, -12), (MPI_Aint)&failures) == -12);

    tick = MPI_Wtick();
    start = MPI_Wtime();
    CHECK(tick > 0 && tick <= 1e-6);
    CHECK(MPI_Wtime() >= start);
    return failures != 0;
}
