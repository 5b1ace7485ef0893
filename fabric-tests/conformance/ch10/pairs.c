/* Info objects hold pairs of strings: one value for a key, keys distinguished by case, values replaced, deleted, counted and numbered; the
 * numbers stay until a pair is set or deleted, and a duplicate has the same order and lives by itself.
 *
 * Covers: 10
 * Ranks: 1
 */
#include "check.h"

#define MANY 300

static void look(MPI_Info info, const char *key, const char *wanted)
{
    char value[MPI_MAX_INFO_VAL];
    int length = sizeof value, flag = -1;
    CHECK_OK(MPI_Info_get_string(info, key, &length, value, &flag));
    CHECK_INT(flag != 0, wanted != NULL);
    if (flag && wanted) {
        CHECK_STR(value, wanted);
        CHECK_INT(length, strlen(wanted) + 1);
    }
}

int main(int argc, char **argv)
{
    MPI_Info info, copy;
    char key[MPI_MAX_INFO_KEY], value[64], keys[MANY][32];
    int n = -1, seen[MANY] = {0};
    check_start(&argc, &argv);
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_get_nkeys(info, &n));
    CHECK_INT(n, 0);
    CHECK_OK(MPI_Info_set(info, "Colour", "green"));
    CHECK_OK(MPI_Info_set(info, "colour", "Green"));
    CHECK_OK(MPI_Info_set(info, " colour ", " with blanks "));
    CHECK_OK(MPI_Info_set(info, "empty", ""));
    look(info, "Colour", "green");
    look(info, "colour", "Green");
    look(info, " colour ", " with blanks "); /* C keeps blanks */
    look(info, "empty", "");
    look(info, "COLOUR", NULL);
    CHECK_OK(MPI_Info_set(info, "colour", "blue"));
    look(info, "colour", "blue");
    CHECK_OK(MPI_Info_get_nkeys(info, &n));
    CHECK_INT(n, 4);
    CHECK_OK(MPI_Info_delete(info, "colour"));
    look(info, "colour", NULL);
    look(info, "Colour", "green");
    CHECK_CLASS(MPI_Info_delete(info, "colour"), MPI_ERR_INFO_NOKEY);
    CHECK_OK(MPI_Info_free(&info));
    CHECK(info == MPI_INFO_NULL);

    CHECK_OK(MPI_Info_create(&info));
    for (int i = 0; i < MANY; i++) {
        snprintf(keys[i], sizeof keys[i], "key %d", i * 7 % MANY);
        snprintf(value, sizeof value, "value %d", i * 7 % MANY);
        CHECK_OK(MPI_Info_set(info, keys[i], value));
    }
    CHECK_OK(MPI_Info_get_nkeys(info, &n));
    CHECK_INT(n, MANY);
    CHECK_OK(MPI_Info_dup(info, &copy));
    for (int i = 0; i < MANY; i++) {
        char again[MPI_MAX_INFO_KEY];
        int number = -1;
        CHECK_OK(MPI_Info_get_nthkey(info, i, key));
        CHECK_OK(MPI_Info_get_nthkey(copy, i, again));
        CHECK_STR(again, key);
        CHECK_INT(sscanf(key, "key %d", &number), 1);
        if (number >= 0 && number < MANY) seen[number]++;
        snprintf(value, sizeof value, "value %d", number);
        look(copy, key, value);
        /* Questions do not renumber. */
        CHECK_OK(MPI_Info_get_nthkey(info, i, again));
        CHECK_STR(again, key);
    }
    for (int i = 0; i < MANY; i++) CHECK_INT(seen[i], 1);
    CHECK_OK(MPI_Info_set(copy, "key 0", "changed"));
    look(info, "key 0", "value 0");
    CHECK_OK(MPI_Info_delete(info, "key 1"));
    look(copy, "key 1", "value 1");
    CHECK_OK(MPI_Info_free(&info));
    look(copy, "key 0", "changed");
    CHECK_OK(MPI_Info_free(&copy));
    return check_end();
}
