/* Versions of the standard, the ABI and the library: compile time and run time must agree (9.1.1). */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#if MPI_VERSION != 4 || MPI_SUBVERSION != 1 || MPI_ABI_VERSION != 1 || MPI_ABI_SUBVERSION != 0
#error "wrong version macros"
#endif

int main(void)
{
    int version, subversion, major, minor, length;
    char text[MPI_MAX_LIBRARY_VERSION_STRING];

    if (MPI_Get_version(&version, &subversion) != MPI_SUCCESS)
        return 1;
    printf("version %d.%d\n", version, subversion);
    if (MPI_Abi_get_version(&major, &minor) != MPI_SUCCESS)
        return 2;
    printf("abi %d.%d\n", major, minor);
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS || (int)strlen(text) != length)
        return 3;
    printf("library %s\n", text);
    return 0;
}
