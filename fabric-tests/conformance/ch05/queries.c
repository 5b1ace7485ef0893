/* What small and large queries say where the other kind of number is needed: counts of a status beyond an int, envelopes of named and
 * parameterised types and of duplicates of large ones, too little room for each kind of contents, bounds of 2^61 bytes and beyond 64 bits.
 *
 * Peers do not look for an extent beyond 64 bits (MPICH 5.0.2 makes such a type), so they fail the last line; the rest passes there.
 *
 * Covers: 3.2.5, 5.1.5, 5.1.7, 5.1.8, 5.1.11, 5.1.13, 13.3, 19.1.9
 * Ranks: 1
 */
#include "check.h"

static void statuses(void)
{
    const MPI_Count bytes = (MPI_Count)1 << 33;
    MPI_Status status;
    MPI_Datatype eight;
    MPI_Count large;
    int count;
    memset(&status, 0, sizeof status);
    CHECK_OK(MPI_Type_contiguous(8, MPI_BYTE, &eight));
    CHECK_OK(MPI_Type_commit(&eight));
    CHECK_OK(MPI_Status_set_elements_c(&status, MPI_BYTE, bytes));
    CHECK_OK(MPI_Get_elements_c(&status, MPI_BYTE, &large));
    CHECK_INT(large, bytes);
    CHECK_OK(MPI_Get_elements(&status, MPI_BYTE, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    /* 2^31 of them do not fit, 2^30 do; elements are the bytes of the eight. */
    CHECK_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_count(&status, eight, &count));
    CHECK_INT(count, 1 << 30);
    CHECK_OK(MPI_Get_elements(&status, eight, &count));
    CHECK_INT(count, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_elements_c(&status, eight, &large));
    CHECK_INT(large, bytes);
    CHECK_OK(MPI_Type_free(&eight));
}

static void envelopes(void)
{
    MPI_Count counts[4];
    MPI_Datatype type, twin, inner;
    int combiner, integers[2] = {0}, ni, na, nd;
    CHECK_OK(MPI_Type_get_envelope_c(MPI_INT, &counts[0], &counts[1], &counts[2], &counts[3], &combiner));
    CHECK(combiner == MPI_COMBINER_NAMED && !counts[0] && !counts[1] && !counts[2] && !counts[3]);
    CHECK_OK(MPI_Type_create_f90_real(6, 37, &type));
    CHECK_OK(MPI_Type_get_envelope_c(type, &counts[0], &counts[1], &counts[2], &counts[3], &combiner));
    CHECK(combiner == MPI_COMBINER_F90_REAL && counts[0] == 2 && !counts[1] && !counts[2] && !counts[3]);
    CHECK_OK(MPI_Type_get_contents_c(type, 2, 0, 0, 0, integers, NULL, NULL, NULL));
    CHECK(integers[0] == 6 && integers[1] == 37);
    /* A duplicate has no large counts of its own; what it was made of has. */
    CHECK_OK(MPI_Type_contiguous_c(3, MPI_INT, &type));
    CHECK_OK(MPI_Type_dup(type, &twin));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_get_envelope(twin, &ni, &na, &nd, &combiner));
    CHECK(combiner == MPI_COMBINER_DUP && ni == 0 && na == 0 && nd == 1);
    CHECK_OK(MPI_Type_get_contents(twin, 0, 0, 1, NULL, NULL, &inner));
    CHECK_CLASS(MPI_Type_get_envelope(inner, &ni, &na, &nd, &combiner), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_free(&twin));
}

static void little_room(void)
{
    const int ones[2] = {1, 1};
    const MPI_Aint places[2] = {0, 8};
    const MPI_Datatype members[2] = {MPI_INT, MPI_INT};
    int integers[3];
    MPI_Aint addresses[2];
    MPI_Datatype type, types[2];
    CHECK_OK(MPI_Type_create_struct(2, ones, places, members, &type));
    CHECK(MPI_Type_get_contents(type, 2, 2, 2, integers, addresses, types) != MPI_SUCCESS);
    CHECK(MPI_Type_get_contents(type, 3, 1, 2, integers, addresses, types) != MPI_SUCCESS);
    CHECK(MPI_Type_get_contents(type, 3, 2, 1, integers, addresses, types) != MPI_SUCCESS);
    CHECK_OK(MPI_Type_get_contents(type, 3, 2, 2, integers, addresses, types));
    CHECK_OK(MPI_Type_free(&type));
}

static void great_bounds(void)
{
    const MPI_Count far = (MPI_Count)1 << 60, ones[2] = {1, 1}, places[2] = {-far, far}, most[2] = {-4 * far, 4 * far - 8}, beyond[2] = {-4 * far, 4 * far};
    MPI_Datatype type;
    MPI_Aint lb, extent;
    CHECK_OK(MPI_Type_create_hindexed_c(2, ones, places, MPI_INT, &type));
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK(lb == -far && extent == 2 * far + 4);
    CHECK_OK(MPI_Type_get_true_extent(type, &lb, &extent));
    CHECK(lb == -far && extent == 2 * far + 4);
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_create_hindexed_c(2, ones, most, MPI_INT, &type));
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK(lb == -4 * far && extent == INT64_MAX - 3);
    CHECK_OK(MPI_Type_free(&type));
    /* An extent of nearly 2^63 fits; one of more does not, and is refused when the type is made. */
    CHECK_CLASS(MPI_Type_create_hindexed_c(2, ones, beyond, MPI_INT, &type), MPI_ERR_COUNT);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    statuses();
    envelopes();
    little_room();
    great_bounds();
    return check_end();
}
