/* Handles to Fortran integers and back, predefined and made, in all eleven kinds; statuses too.
 *
 * Covers: 19.3.4, 19.3.5, 2.6.4
 * Ranks: 1 2
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_SELF)) == MPI_COMM_SELF);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_NULL)) == MPI_COMM_NULL);
    CHECK(MPI_Comm_c2f(MPI_COMM_WORLD) != MPI_Comm_c2f(MPI_COMM_SELF));
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DOUBLE)) == MPI_DOUBLE);
    CHECK(MPI_Type_f2c(MPI_Type_c2f(MPI_DATATYPE_NULL)) == MPI_DATATYPE_NULL);
    CHECK(MPI_Op_f2c(MPI_Op_c2f(MPI_SUM)) == MPI_SUM);
    CHECK(MPI_Group_f2c(MPI_Group_c2f(MPI_GROUP_EMPTY)) == MPI_GROUP_EMPTY);
    CHECK(MPI_Errhandler_f2c(MPI_Errhandler_c2f(MPI_ERRORS_RETURN)) == MPI_ERRORS_RETURN);
    CHECK(MPI_Info_f2c(MPI_Info_c2f(MPI_INFO_NULL)) == MPI_INFO_NULL);
    CHECK(MPI_Request_f2c(MPI_Request_c2f(MPI_REQUEST_NULL)) == MPI_REQUEST_NULL);
    CHECK(MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NO_PROC)) == MPI_MESSAGE_NO_PROC);
    CHECK(MPI_Message_f2c(MPI_Message_c2f(MPI_MESSAGE_NULL)) == MPI_MESSAGE_NULL);
    CHECK(MPI_Win_f2c(MPI_Win_c2f(MPI_WIN_NULL)) == MPI_WIN_NULL);
    CHECK(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    CHECK(MPI_Session_f2c(MPI_Session_c2f(MPI_SESSION_NULL)) == MPI_SESSION_NULL);

    MPI_Comm twin;
    MPI_Datatype type;
    MPI_Request request;
    MPI_Status status, back;
    int value = 5, got = -1, count = -1, cancelled = -1;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(twin)) == twin);
    CHECK(MPI_Comm_c2f(twin) != MPI_Comm_c2f(MPI_COMM_WORLD));
    CHECK(MPI_Type_f2c(MPI_Type_c2f(type)) == type);
    CHECK_OK(MPI_Irecv(&got, 1, MPI_INT, check_rank, 9, twin, &request));
    MPI_Fint number = MPI_Request_c2f(request);
    CHECK_OK(MPI_Send(&value, 1, MPI_INT, check_rank, 9, MPI_Comm_f2c(MPI_Comm_c2f(twin))));
    MPI_Request same = MPI_Request_f2c(number);
    CHECK(same == request);
    CHECK_OK(MPI_Wait(&same, &status));
    CHECK_INT(got, 5);

    MPI_Fint *numbers = check_alloc(sizeof(MPI_Status) + 64);
    memset(numbers, 0, sizeof(MPI_Status) + 64);
    CHECK_OK(MPI_Status_c2f(&status, numbers));
    memset(&back, 0x5A, sizeof back);
    CHECK_OK(MPI_Status_f2c(numbers, &back));
    CHECK_STATUS(back, check_rank, 9, MPI_INT, 1);
    CHECK_OK(MPI_Get_count(&back, MPI_BYTE, &count));
    CHECK_INT(count, 4);
    CHECK_OK(MPI_Test_cancelled(&back, &cancelled));
    CHECK_INT(cancelled, 0);
    free(numbers);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Comm_free(&twin));
    return check_end();
}
