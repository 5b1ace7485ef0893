/* Removing what was added: strings, codes, classes, in that order only; MPI_LASTUSEDCODE goes down with the largest class, and
 * MPI_ERR_LASTCODE stays. Numbers can be had again afterwards. (MPICH 5.0 does not lower the
 * attribute when the largest class goes.)
 *
 * Covers: 9.5.1
 * Ranks: 1 2
 */
#include "check.h"

static int last_used(void)
{
    int *value = NULL, flag = 0;
    CHECK_OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &value, &flag));
    CHECK(flag);
    return flag ? *value : -1;
}

int main(int argc, char **argv)
{
    int classes[20], codes[20], length = -1;
    char text[MPI_MAX_ERROR_STRING];
    check_start(&argc, &argv);
    int before = last_used(), constant = MPI_ERR_LASTCODE;
    CHECK(before >= MPI_ERR_LASTCODE);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(MPI_Add_error_class(&classes[i]));
        CHECK_OK(MPI_Add_error_code(classes[i], &codes[i]));
        CHECK_OK(MPI_Add_error_string(codes[i], "of ours"));
        CHECK_OK(MPI_Add_error_string(classes[i], "class of ours"));
        CHECK(last_used() >= classes[i]);
        for (int k = 0; k < i; k++) CHECK(classes[k] != classes[i] && codes[k] != codes[i] && codes[k] != classes[i]);
    }
    CHECK_INT(MPI_ERR_LASTCODE, constant);
    CHECK_OK(MPI_Remove_error_string(codes[3]));
    CHECK_OK(MPI_Error_string(codes[3], text, &length));
    CHECK_INT(length, 0);
    CHECK_OK(MPI_Add_error_string(codes[3], "again"));
    CHECK_OK(MPI_Error_string(codes[3], text, &length));
    CHECK_STR(text, "again");
    /* From the largest down, so that the attribute has to follow. */
    int largest = last_used();
    for (int i = 19; i >= 0; i--) {
        CHECK_OK(MPI_Remove_error_string(codes[i]));
        CHECK_OK(MPI_Remove_error_code(codes[i]));
        CHECK_OK(MPI_Remove_error_string(classes[i]));
        CHECK_OK(MPI_Remove_error_class(classes[i]));
        CHECK(last_used() <= largest);
        largest = last_used();
    }
    CHECK_INT(last_used(), before);
    int fresh = -1, error_class = -1;
    CHECK_OK(MPI_Add_error_class(&fresh));
    CHECK(fresh > MPI_ERR_LASTCODE);
    CHECK_OK(MPI_Error_class(fresh, &error_class));
    CHECK_INT(error_class, fresh);
    CHECK_OK(MPI_Remove_error_class(fresh));
    return check_end();
}
