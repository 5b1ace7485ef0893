/* Names of communicators and datatypes: predefined ones, set ones, cut at MPI_MAX_OBJECT_NAME, not inherited; null handles.
 *
 * Covers: 7.8, 3.2.2
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    char name[MPI_MAX_OBJECT_NAME + 1], large[3 * MPI_MAX_OBJECT_NAME];
    int length = -1;
    MPI_Comm comm, twin;
    MPI_Datatype type;
    CHECK_OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    CHECK_STR(name, "MPI_COMM_WORLD");
    CHECK_INT(length, strlen(name));
    CHECK_OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &length));
    CHECK_STR(name, "MPI_COMM_SELF");
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_get_name(comm, name, &length));
    CHECK_STR(name, "");
    CHECK_INT(length, 0);
    CHECK_OK(MPI_Comm_set_name(comm, "  rows of the grid"));
    CHECK_OK(MPI_Comm_get_name(comm, name, &length));
    CHECK_STR(name, "  rows of the grid");
    CHECK_OK(MPI_Comm_dup(comm, &twin));
    CHECK_OK(MPI_Comm_get_name(twin, name, &length));
    CHECK_STR(name, "");
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = 0;
    CHECK_OK(MPI_Comm_set_name(twin, large));
    memset(name, 0x5A, sizeof name);
    CHECK_OK(MPI_Comm_get_name(twin, name, &length));
    CHECK(length < MPI_MAX_OBJECT_NAME);
    CHECK_INT(strlen(name), length);
    CHECK_OK(MPI_Comm_set_name(MPI_COMM_WORLD, "everybody"));
    CHECK_OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &length));
    CHECK_STR(name, "everybody");
    CHECK_OK(MPI_Comm_free(&comm));
    CHECK_OK(MPI_Comm_free(&twin));

    CHECK_OK(MPI_Type_get_name(MPI_DOUBLE, name, &length));
    CHECK_STR(name, "MPI_DOUBLE");
    CHECK_OK(MPI_Type_get_name(MPI_2INT, name, &length));
    CHECK_STR(name, "MPI_2INT");
    /* Of two names for one type the table in 3.2.2 calls one the synonym; the other one is the default name. */
    CHECK_OK(MPI_Type_get_name(MPI_LONG_LONG, name, &length));
    CHECK_STR(name, "MPI_LONG_LONG_INT");
    CHECK_OK(MPI_Type_get_name(MPI_C_FLOAT_COMPLEX, name, &length));
    CHECK_STR(name, "MPI_C_COMPLEX");
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK_OK(MPI_Type_get_name(type, name, &length));
    CHECK_STR(name, "");
    CHECK_OK(MPI_Type_set_name(type, "triple"));
    CHECK_OK(MPI_Type_get_name(type, name, &length));
    CHECK_STR(name, "triple");
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Comm_get_name(MPI_COMM_NULL, name, &length));
    CHECK_STR(name, "MPI_COMM_NULL");
    CHECK_OK(MPI_Type_get_name(MPI_DATATYPE_NULL, name, &length));
    CHECK_STR(name, "MPI_DATATYPE_NULL");
    return check_end();
}
