/* The deprecated questions: MPI_Info_get cuts at valuelen, which does not count the NUL, and MPI_Info_get_valuelen does not either. They
 * work at any time too. (MPICH 5.0 raises an error where the value is to be cut.)
 *
 * Covers: 16.3, 10, 11.4.1
 * Ranks: 1
 * Flags: -Wno-deprecated-declarations
 */
#include "check.h"

static void use(void)
{
    char value[16];
    MPI_Info info;
    int flag = -1, length = -1;
    CHECK_INT(MPI_Info_create(&info), MPI_SUCCESS);
    CHECK_INT(MPI_Info_set(info, "digits", "01234567"), MPI_SUCCESS);
    CHECK_INT(MPI_Info_get_valuelen(info, "digits", &length, &flag), MPI_SUCCESS);
    CHECK(flag);
    CHECK_INT(length, 8);
    length = 77;
    CHECK_INT(MPI_Info_get_valuelen(info, "letters", &length, &flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    CHECK_INT(length, 77);
    for (int room = 1; room <= 10; room++) {
        memset(value, 'x', sizeof value);
        CHECK_INT(MPI_Info_get(info, "digits", room, value, &flag), MPI_SUCCESS);
        CHECK(flag);
        int kept = room < 8 ? room : 8;
        CHECK_INT(strncmp(value, "01234567", (size_t)kept), 0);
        CHECK_INT(value[kept], 0);
        for (int i = room + 1; i < (int)sizeof value; i++) CHECK_INT(value[i], 'x');
    }
    memset(value, 'x', sizeof value);
    CHECK_INT(MPI_Info_get(info, "letters", 8, value, &flag), MPI_SUCCESS);
    CHECK_INT(flag, 0);
    CHECK_BYTES(value, 'x', sizeof value);
    CHECK_INT(MPI_Info_free(&info), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    use();
    check_start(&argc, &argv);
    use();
    MPI_Finalize();
    use();
    return check_verdict();
}
