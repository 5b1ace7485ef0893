/* MPI_Info_get_string: buflen goes in as the room and comes out as the room that is needed, with the NUL; room 0 leaves the value alone,
 * less room than needed cuts, an unknown key leaves everything alone but the flag.
 *
 * Covers: 10
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    static const char text[] = "0123456789";
    char value[32];
    MPI_Info info;
    int flag, length;
    check_start(&argc, &argv);
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "digits", text));
    for (int room = 0; room <= 20; room++) {
        memset(value, 'x', sizeof value);
        flag = -1, length = room;
        CHECK_OK(MPI_Info_get_string(info, "digits", &length, value, &flag));
        CHECK(flag);
        CHECK_INT(length, 11);
        int written = room == 0 ? 0 : room < 11 ? room : 11;
        if (written > 0) {
            CHECK_INT(memcmp(value, text, (size_t)written - 1), 0);
            CHECK_INT(value[written - 1], 0);
        }
        for (int i = room; i < (int)sizeof value; i++) CHECK_INT(value[i], 'x');
    }
    flag = -1, length = 0;
    CHECK_OK(MPI_Info_get_string(info, "digits", &length, NULL, &flag));
    CHECK(flag);
    CHECK_INT(length, 11);
    memset(value, 'x', sizeof value);
    flag = -1, length = sizeof value;
    CHECK_OK(MPI_Info_get_string(info, "letters", &length, value, &flag));
    CHECK_INT(flag, 0);
    CHECK_BYTES(value, 'x', sizeof value);
    CHECK_OK(MPI_Info_free(&info));
    return check_end();
}
