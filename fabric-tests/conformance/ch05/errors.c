/* Wrong arguments of datatype procedures: the class, and that the text names the argument.
 *
 * The classes are this library's where section 9.4 leaves a choice; MPICH answers MPI_ERR_ARG or MPI_ERR_TYPE for some,
 * so it fails this program by design.
 *
 * Covers: 5.1.2, 5.1.3, 5.1.9, 5.1.11, 5.1.13, 5.2, 9.4
 * Ranks: 1
 */
#include "check.h"

#define CHECK_ERROR(call, wanted, names)                                                     \
    do {                                                                                     \
        int got_ = (call), length_;                                                          \
        char why_[MPI_MAX_ERROR_STRING + 1] = "";                                            \
        if (check_class_of(got_) != (wanted))                                                \
            CHECK_FAIL("%s: class %d, wanted %s", #call, check_class_of(got_), #wanted);     \
        MPI_Error_string(got_, why_, &length_);                                              \
        if (!strstr(why_, names)) CHECK_FAIL("%s: \"%s\" does not name %s", #call, why_, names); \
    } while (0)

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    MPI_Datatype type, two, ints[2] = {MPI_INT, MPI_INT}, stale[2] = {MPI_INT, MPI_DATATYPE_NULL};
    int lengths[2] = {1, -2}, good[2] = {1, 1}, places[2] = {0, 4}, value[8] = {0}, position;
    MPI_Aint bytes[2] = {0, 8}, lb, extent;
    MPI_Count large_lengths[2] = {1, -2}, large_places[2] = {0, 8};

    /* Negative numbers. */
    CHECK_ERROR(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    CHECK_ERROR(MPI_Type_contiguous_c(-1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    CHECK_ERROR(MPI_Type_vector(-1, 1, 1, MPI_INT, &type), MPI_ERR_COUNT, "count");
    CHECK_ERROR(MPI_Type_vector(1, -1, 1, MPI_INT, &type), MPI_ERR_COUNT, "blocklength");
    CHECK_ERROR(MPI_Type_create_hvector(1, -1, 1, MPI_INT, &type), MPI_ERR_COUNT, "blocklength");
    CHECK_ERROR(MPI_Type_indexed(2, lengths, places, MPI_INT, &type), MPI_ERR_COUNT, "array_of_blocklengths[1]");
    CHECK_ERROR(MPI_Type_create_hindexed(2, lengths, bytes, MPI_INT, &type), MPI_ERR_COUNT, "array_of_blocklengths[1]");
    CHECK_ERROR(MPI_Type_indexed_c(2, large_lengths, large_places, MPI_INT, &type), MPI_ERR_COUNT,
                "array_of_blocklengths[1]");
    CHECK_ERROR(MPI_Type_create_indexed_block(2, -3, places, MPI_INT, &type), MPI_ERR_COUNT, "blocklength");
    CHECK_ERROR(MPI_Type_create_struct(2, lengths, bytes, ints, &type), MPI_ERR_COUNT, "array_of_blocklengths[1]");

    /* Null arrays of a positive length; of none they are right. */
    CHECK_ERROR(MPI_Type_indexed(2, NULL, places, MPI_INT, &type), MPI_ERR_ARG, "array_of_blocklengths");
    CHECK_ERROR(MPI_Type_indexed(2, good, NULL, MPI_INT, &type), MPI_ERR_ARG, "array_of_displacements");
    CHECK_ERROR(MPI_Type_create_struct(2, good, bytes, NULL, &type), MPI_ERR_ARG, "array_of_types");
    CHECK_ERROR(MPI_Type_create_subarray(2, good, good, NULL, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG,
                "array_of_starts");
    CHECK_ERROR(MPI_Type_contiguous(1, MPI_INT, NULL), MPI_ERR_ARG, "newtype");
    CHECK_OK(MPI_Type_indexed(0, NULL, NULL, MPI_INT, &type));
    CHECK_OK(MPI_Type_free(&type));

    /* Handles. */
    CHECK_ERROR(MPI_Type_contiguous(1, MPI_DATATYPE_NULL, &type), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    CHECK_ERROR(MPI_Type_create_struct(2, good, bytes, stale, &type), MPI_ERR_TYPE, "MPI_DATATYPE_NULL");
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &two));
    CHECK_ERROR(MPI_Send(value, 1, two, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE, "not committed");
    CHECK_ERROR(MPI_Recv(value, 1, two, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_ERR_TYPE, "not committed");
    position = 0;
    CHECK_ERROR(MPI_Pack(value, 1, two, value, 8, &position, MPI_COMM_SELF), MPI_ERR_TYPE, "not committed");
    MPI_Datatype again = two;
    CHECK_OK(MPI_Type_free(&two));
    CHECK_ERROR(MPI_Type_size(again, &position), MPI_ERR_TYPE, "freed");
    CHECK_ERROR(MPI_Type_commit(&again), MPI_ERR_TYPE, "freed");
    CHECK_ERROR(MPI_Send(value, 1, again, 0, 0, MPI_COMM_SELF), MPI_ERR_TYPE, "freed");
    again = MPI_INT;
    CHECK_ERROR(MPI_Type_free(&again), MPI_ERR_TYPE, "MPI_INT");

    /* What does not fit 64 bits. */
    MPI_Count huge = (MPI_Count)1 << 62;
    CHECK_ERROR(MPI_Type_contiguous_c(huge, MPI_DOUBLE, &type), MPI_ERR_COUNT, "64 bits");
    CHECK_ERROR(MPI_Type_vector_c(4, 1, huge, MPI_DOUBLE, &type), MPI_ERR_COUNT, "64 bits");
    CHECK_ERROR(MPI_Type_create_hvector_c(8, 1, huge, MPI_DOUBLE, &type), MPI_ERR_COUNT, "64 bits");
    CHECK_ERROR(MPI_Type_create_resized_c(MPI_INT, huge, huge, &type), MPI_ERR_COUNT, "64 bits");
    large_places[1] = huge;
    large_lengths[1] = 1;
    CHECK_ERROR(MPI_Type_indexed_c(2, large_lengths, large_places, MPI_DOUBLE, &type), MPI_ERR_COUNT, "64 bits");
    CHECK_ERROR(MPI_Send_c(value, huge, MPI_DOUBLE, 0, 0, MPI_COMM_SELF), MPI_ERR_COUNT, "count");

    /* Subarrays and bounds. */
    int sizes[2] = {4, 5}, subsizes[2] = {2, 6}, starts[2] = {0, 0};
    CHECK_ERROR(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG,
                "dimension 1");
    subsizes[1] = 3, starts[1] = 3;
    CHECK_ERROR(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG,
                "dimension 1");
    starts[1] = 2;
    CHECK_ERROR(MPI_Type_create_subarray(2, sizes, subsizes, starts, 99, MPI_INT, &type), MPI_ERR_ARG, "order");
    CHECK_ERROR(MPI_Type_create_subarray(0, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type), MPI_ERR_ARG, "ndims");

    /* Overlapping entries: good to send, wrong to receive into. */
    CHECK_OK(MPI_Type_vector(3, 2, 1, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    for (int i = 0; i < 8; i++) value[i] = i;
    int packed[6];
    position = 0;
    CHECK_OK(MPI_Pack(value, 1, type, packed, sizeof packed, &position, MPI_COMM_SELF));
    static const int wanted[6] = {0, 1, 1, 2, 2, 3};
    CHECK(memcmp(packed, wanted, sizeof packed) == 0);
    MPI_Request request;
    CHECK_ERROR(MPI_Irecv(value, 1, type, 0, 0, MPI_COMM_SELF, &request), MPI_ERR_TYPE, "overlap");
    CHECK_ERROR(MPI_Recv(value, 1, type, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE), MPI_ERR_TYPE, "overlap");
    position = 0;
    CHECK_ERROR(MPI_Unpack(packed, sizeof packed, &position, value, 1, type, MPI_COMM_SELF), MPI_ERR_TYPE, "overlap");
    CHECK_OK(MPI_Type_free(&type));
    /* Elements that overlap their neighbours: one may be received, two may not. */
    CHECK_OK(MPI_Type_create_resized(MPI_DOUBLE, 0, 4, &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Irecv(value, 1, type, MPI_PROC_NULL, 0, MPI_COMM_SELF, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_ERROR(MPI_Irecv(value, 2, type, 0, 0, MPI_COMM_SELF, &request), MPI_ERR_TYPE, "overlap");
    CHECK_OK(MPI_Type_free(&type));

    /* Decoding. */
    int ni, na, nd, combiner, one_int;
    CHECK_ERROR(MPI_Type_get_contents(MPI_INT, 1, 1, 1, &one_int, &lb, &type), MPI_ERR_TYPE, "predefined");
    CHECK_OK(MPI_Type_contiguous_c(3, MPI_INT, &type));
    CHECK_ERROR(MPI_Type_get_envelope(type, &ni, &na, &nd, &combiner), MPI_ERR_TYPE, "MPI_Type_get_envelope_c");
    CHECK_ERROR(MPI_Type_get_contents(type, 1, 1, 1, &one_int, &lb, &two), MPI_ERR_TYPE, "MPI_Type_get_contents_c");
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &type));
    CHECK_ERROR(MPI_Type_get_contents(type, 0, 1, 1, &one_int, &lb, &two), MPI_ERR_ARG, "max_integers");
    CHECK_OK(MPI_Type_free(&type));

    /* Packing. */
    position = 5;
    CHECK_ERROR(MPI_Pack(value, 1, MPI_INT, packed, 8, &position, MPI_COMM_SELF), MPI_ERR_TRUNCATE, "outbuf");
    CHECK_ERROR(MPI_Unpack(packed, 8, &position, value, 1, MPI_INT, MPI_COMM_SELF), MPI_ERR_TRUNCATE, "inbuf");
    CHECK_INT(position, 5);
    CHECK_ERROR(MPI_Pack(value, -1, MPI_INT, packed, 8, &position, MPI_COMM_SELF), MPI_ERR_COUNT, "incount");
    CHECK_ERROR(MPI_Type_get_extent(MPI_INT, NULL, &extent), MPI_ERR_ARG, "lb");
    return check_end();
}
