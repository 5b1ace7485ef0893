/* Constants at their places: handles and addresses in static initialisers, integer constants in case labels and array
 * bounds, all MPI constants distinct where they must be; widths of the integer types.
 *
 * Covers: 2.5.4, 2.5.1, 2.5.6, 2.5.8, 9.1.1, 7.2.1
 * Ranks: 1
 */
#include "check.h"

static MPI_Comm comms[] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};
static MPI_Datatype types[] = {MPI_DATATYPE_NULL, MPI_INT, MPI_DOUBLE, MPI_BYTE, MPI_CHAR, MPI_PACKED, MPI_AINT, MPI_COUNT,
                               MPI_OFFSET, MPI_DOUBLE_INT, MPI_C_BOOL, MPI_INT8_T, MPI_C_DOUBLE_COMPLEX, MPI_WCHAR};
static MPI_Op ops[] = {MPI_OP_NULL, MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_MAXLOC, MPI_MINLOC, MPI_LAND, MPI_LOR,
                       MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
static MPI_Group groups[] = {MPI_GROUP_NULL, MPI_GROUP_EMPTY};
static MPI_Request request = MPI_REQUEST_NULL;
static MPI_Message messages[] = {MPI_MESSAGE_NULL, MPI_MESSAGE_NO_PROC};
static MPI_Errhandler handlers[] = {MPI_ERRHANDLER_NULL, MPI_ERRORS_ARE_FATAL, MPI_ERRORS_RETURN, MPI_ERRORS_ABORT};
static MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_ENV};
static MPI_Win win = MPI_WIN_NULL;
static MPI_File file = MPI_FILE_NULL;
static MPI_Session session = MPI_SESSION_NULL;
static void *in_place = MPI_IN_PLACE;
static void *bottom = MPI_BOTTOM;
static MPI_Status *ignore = MPI_STATUS_IGNORE;
static MPI_Status *ignore_all = MPI_STATUSES_IGNORE;
static char name[MPI_MAX_PROCESSOR_NAME], text[MPI_MAX_ERROR_STRING], object[MPI_MAX_OBJECT_NAME],
    library[MPI_MAX_LIBRARY_VERSION_STRING], key[MPI_MAX_INFO_KEY], value[MPI_MAX_INFO_VAL], port[MPI_MAX_PORT_NAME];

static int class_number(int error_class)
{
    switch (error_class) {
    case MPI_SUCCESS: return 0;
    case MPI_ERR_BUFFER: return 1;
    case MPI_ERR_COUNT: return 2;
    case MPI_ERR_TYPE: return 3;
    case MPI_ERR_TAG: return 4;
    case MPI_ERR_COMM: return 5;
    case MPI_ERR_RANK: return 6;
    case MPI_ERR_REQUEST: return 7;
    case MPI_ERR_ROOT: return 8;
    case MPI_ERR_GROUP: return 9;
    case MPI_ERR_OP: return 10;
    case MPI_ERR_TOPOLOGY: return 11;
    case MPI_ERR_DIMS: return 12;
    case MPI_ERR_ARG: return 13;
    case MPI_ERR_UNKNOWN: return 14;
    case MPI_ERR_TRUNCATE: return 15;
    case MPI_ERR_OTHER: return 16;
    case MPI_ERR_INTERN: return 17;
    case MPI_ERR_PENDING: return 18;
    case MPI_ERR_IN_STATUS: return 19;
    case MPI_ERR_LASTCODE: return 20;
    default: return -1;
    }
}

static int level_number(int level)
{
    switch (level) {
    case MPI_THREAD_SINGLE: return 0;
    case MPI_THREAD_FUNNELED: return 1;
    case MPI_THREAD_SERIALIZED: return 2;
    case MPI_THREAD_MULTIPLE: return 3;
    default: return -1;
    }
}

static int special_number(int value)
{
    switch (value) {
    case MPI_ANY_SOURCE: return 1;
    case MPI_PROC_NULL: return 2;
    case MPI_UNDEFINED: return 3;
    case MPI_ROOT: return 4;
    default: return 0;
    }
}

static int comparison_number(int value)
{
    switch (value) {
    case MPI_IDENT: return 1;
    case MPI_CONGRUENT: return 2;
    case MPI_SIMILAR: return 3;
    case MPI_UNEQUAL: return 4;
    default: return 0;
    }
}

#if MPI_VERSION < 4 || (MPI_VERSION == 4 && MPI_SUBVERSION < 1)
#error "mpi.h says that it is older than 4.1"
#endif

#define DISTINCT(array)                                                               \
    for (unsigned i = 0; i < sizeof array / sizeof *array; i++)                       \
        for (unsigned k = i + 1; k < sizeof array / sizeof *array; k++)               \
            if (array[i] == array[k]) CHECK_FAIL("%s: %u and %u are the same", #array, i, k);

int main(int argc, char **argv)
{
    CHECK(comms[0] == MPI_COMM_WORLD && comms[1] == MPI_COMM_SELF && comms[2] == MPI_COMM_NULL);
    check_start(&argc, &argv);
    /* Handles initialised before MPI_Init are good after it. */
    int size = 0, n = 1, sum = 0;
    CHECK_OK(MPI_Comm_size(comms[0], &size));
    CHECK_INT(size, check_size);
    CHECK_OK(MPI_Allreduce(&n, &sum, 1, types[1], ops[1], comms[0]));
    CHECK_INT(sum, check_size);
    CHECK_OK(MPI_Allreduce(in_place, &sum, 1, types[1], ops[1], comms[1]));
    CHECK_INT(sum, check_size);
    CHECK_OK(MPI_Wait(&request, ignore));
    CHECK_OK(MPI_Waitall(1, &request, ignore_all));
    DISTINCT(comms)
    DISTINCT(types)
    DISTINCT(ops)
    DISTINCT(groups)
    DISTINCT(messages)
    DISTINCT(handlers)
    DISTINCT(infos)
    CHECK(win == MPI_WIN_NULL && file == MPI_FILE_NULL && session == MPI_SESSION_NULL);
    CHECK(in_place != bottom && bottom == MPI_BOTTOM);
    CHECK_INT(class_number(MPI_SUCCESS), 0);
    CHECK_INT(class_number(MPI_ERR_IN_STATUS), 19);
    CHECK_INT(level_number(MPI_THREAD_MULTIPLE), 3);
    CHECK_INT(special_number(MPI_PROC_NULL), 2);
    CHECK_INT(comparison_number(MPI_SIMILAR), 3);
    CHECK(MPI_THREAD_SINGLE < MPI_THREAD_FUNNELED && MPI_THREAD_FUNNELED < MPI_THREAD_SERIALIZED
          && MPI_THREAD_SERIALIZED < MPI_THREAD_MULTIPLE);
    CHECK_INT(MPI_SUCCESS, 0);
    CHECK(MPI_ERR_LASTCODE > MPI_ERR_ARG);
    CHECK(sizeof(MPI_Aint) == sizeof(void *));
    CHECK(sizeof(MPI_Count) >= sizeof(MPI_Offset) && sizeof(MPI_Count) >= sizeof(MPI_Aint) && sizeof(MPI_Count) >= sizeof(int));
    CHECK((MPI_Aint)-1 < 0 && (MPI_Count)-1 < 0 && (MPI_Offset)-1 < 0);
    CHECK(sizeof name >= 64 && sizeof text >= 64 && sizeof object >= 64 && sizeof library >= 64);
    CHECK(sizeof key >= 32 && sizeof key <= 256 && sizeof value >= 32 && sizeof port >= 32);
    return check_end();
}
