/* Keys and values of the greatest length fit; longer ones are errors of the classes MPI_ERR_INFO_KEY and MPI_ERR_INFO_VALUE; a key that
 * is not there is MPI_ERR_INFO_NOKEY. The lengths are within what the standard says.
 *
 * Covers: 10, 9.4
 * Ranks: 1
 */
#include "check.h"

int main(int argc, char **argv)
{
    char *key = check_alloc(MPI_MAX_INFO_KEY + 2), *value = check_alloc(MPI_MAX_INFO_VAL + 2), *got = check_alloc(MPI_MAX_INFO_VAL + 2);
    MPI_Info info;
    int flag = 0, length, n = -1;
    check_start(&argc, &argv);
    /* In C the constants have room for the NUL. */
    CHECK(MPI_MAX_INFO_KEY - 1 >= 31 && MPI_MAX_INFO_KEY - 1 <= 255);
    CHECK(MPI_MAX_INFO_VAL >= 1);
    CHECK_OK(MPI_Info_create(&info));
    memset(key, 'k', MPI_MAX_INFO_KEY + 1);
    memset(value, 'v', MPI_MAX_INFO_VAL + 1);
    key[MPI_MAX_INFO_KEY + 1] = value[MPI_MAX_INFO_VAL + 1] = 0;
    CHECK_CLASS(MPI_Info_set(info, key, "v"), MPI_ERR_INFO_KEY);
    CHECK_CLASS(MPI_Info_set(info, "k", value), MPI_ERR_INFO_VALUE);
    CHECK_OK(MPI_Info_get_nkeys(info, &n));
    CHECK_INT(n, 0);
    key[MPI_MAX_INFO_KEY - 1] = value[MPI_MAX_INFO_VAL - 1] = 0;
    CHECK_OK(MPI_Info_set(info, key, value));
    length = MPI_MAX_INFO_VAL;
    CHECK_OK(MPI_Info_get_string(info, key, &length, got, &flag));
    CHECK(flag);
    CHECK_INT(length, MPI_MAX_INFO_VAL);
    CHECK_STR(got, value);
    char named[MPI_MAX_INFO_KEY];
    CHECK_OK(MPI_Info_get_nthkey(info, 0, named));
    CHECK_STR(named, key);
    CHECK_CLASS(MPI_Info_delete(info, "not there"), MPI_ERR_INFO_NOKEY);
    CHECK_OK(MPI_Info_delete(info, key));
    CHECK_OK(MPI_Info_free(&info));
    free(key), free(value), free(got);
    return check_end();
}
