/* Every procedure that moves data of a datatype refuses, by class and by the argument's name: a type that is not committed, one
 * that was freed, MPI_DATATYPE_NULL, a negative count, and, where elements are written, entries that overlap.
 *
 * The rows are in type_arguments.h. Peers answer other classes for some, and look neither for freed types nor for overlaps, so
 * they fail this program by design.
 *
 * Covers: 5.1.9, 5.1.11, 9.4, 12.3
 * Ranks: 1
 */
#include "check.h"

enum { MOST = 3, ROOM = 64 };

static int out[ROOM], in[ROOM], small_position;
static MPI_Aint aint_position;
static MPI_Count large_position;
static MPI_Comm comm, ring;
static MPI_Win win;
static MPI_Op op;
static MPI_Request request;

/* The arguments of a call: datatypes and counts by their place, the counts of both widths. */
static MPI_Datatype types[MOST], many[MOST][2];
static long counts[MOST];
static int small_counts[MOST][2], small_places[2];
static MPI_Count large_counts[MOST][2];
static MPI_Aint places[2];

struct row {
    const char *name, *types, *counts;
    int (*call)(void);
};

#define T(i) types[i]
#define MANY(i) many[i]
#define ADDRESSES places

#define ONLY(name, types, counts, args) ROW(name, types, counts, args)
#define ROW(name, types, counts, args) \
    static int small_##name(void) { return MPI_##name args; }
#define N(i) (int)counts[i]
#define COUNTS(i) small_counts[i]
#define DISPLACEMENTS small_places
#define POSITION &small_position
#define EXTERNAL_POSITION &aint_position
#include "type_arguments.h"
#undef ROW
#undef ONLY
#undef N
#undef COUNTS
#undef DISPLACEMENTS
#undef POSITION
#undef EXTERNAL_POSITION

#define ONLY(name, types, counts, args)
#define ROW(name, types, counts, args) \
    static int large_##name(void) { return MPI_##name##_c args; }
#define N(i) counts[i]
#define COUNTS(i) large_counts[i]
#define DISPLACEMENTS places
#define POSITION &large_position
#define EXTERNAL_POSITION &large_position
#include "type_arguments.h"
#undef ROW
#undef ONLY

static const struct row rows[] = {
#define ONLY(name, types, counts, args) {"MPI_" #name, types, counts, small_##name},
#define ROW(name, types, counts, args) \
    {"MPI_" #name, types, counts, small_##name}, {"MPI_" #name "_c", types, counts, large_##name},
#include "type_arguments.h"
};

static void set(int which, MPI_Datatype type, int counted, long count)
{
    for (int i = 0; i < MOST; i++) {
        types[i] = many[i][0] = many[i][1] = MPI_INT;
        counts[i] = small_counts[i][0] = small_counts[i][1] = 1;
        large_counts[i][0] = large_counts[i][1] = 1;
    }
    if (which >= 0) types[which] = many[which][0] = many[which][1] = type;
    if (counted >= 0) {
        counts[counted] = large_counts[counted][0] = large_counts[counted][1] = count;
        small_counts[counted][0] = small_counts[counted][1] = (int)count;
    }
}

static void refused(const struct row *row, const char *what, int wanted, const char *argument, const char *says)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length, code;
    in[0] = in[1] = 4711;
    code = row->call();
    if (check_class_of(code) != wanted) CHECK_FAIL("%s, %s: class %d, wanted %d", row->name, what, check_class_of(code), wanted);
    MPI_Error_string(code, text, &length);
    if (!strstr(text, argument)) CHECK_FAIL("%s, %s: \"%s\" does not name %s", row->name, what, text, argument);
    if (!strstr(text, says)) CHECK_FAIL("%s, %s: \"%s\" does not say %s", row->name, what, text, says);
    CHECK_INT(in[0], 4711);
    CHECK_INT(in[1], 4711);
}

static void sum(void *left, void *right, int *length, MPI_Datatype *type)
{
    (void)left, (void)right, (void)length, (void)type;
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    static int memory[ROOM];
    int one = 1, yes = 1, lengths[2] = {1, 1}, overlapping_places[2] = {0, 0};
    MPI_Datatype uncommitted, freed, gone, overlapping, sparse;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &one, &yes, 0, &ring));
    CHECK_OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    CHECK_OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Op_create(sum, 1, &op));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &uncommitted));
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &freed));
    CHECK_OK(MPI_Type_commit(&freed));
    gone = freed;
    CHECK_OK(MPI_Type_free(&freed));
    CHECK_OK(MPI_Type_indexed(2, lengths, overlapping_places, MPI_INT, &overlapping));
    CHECK_OK(MPI_Type_commit(&overlapping));
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_INT, &sparse));
    CHECK_OK(MPI_Type_commit(&sparse));

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *row = &rows[i];
        char names[128], *rest = names, *name;
        snprintf(names, sizeof names, "%s", row->types);
        for (int which = 0; (name = strtok_r(rest, " ", &rest)) != NULL; which++) {
            set(which, uncommitted, -1, 0);
            refused(row, "not committed", MPI_ERR_TYPE, name + 2, strstr(row->name, "_and_") ? "" : "MPI_Type_commit");
            set(which, gone, -1, 0);
            refused(row, "freed", MPI_ERR_TYPE, name + 2, "freed");
            set(which, MPI_DATATYPE_NULL, -1, 0);
            refused(row, "null", MPI_ERR_TYPE, name + 2, "MPI_DATATYPE_NULL");
            if (name[0] == 'r') {
                set(which, overlapping, -1, 0);
                refused(row, "overlap", MPI_ERR_TYPE, name + 2, "overlap");
            }
        }
        snprintf(names, sizeof names, "%s", row->counts);
        rest = names;
        for (int counted = 0; (name = strtok_r(rest, " ", &rest)) != NULL; counted++) {
            set(-1, MPI_INT, counted, -3);
            refused(row, "negative", MPI_ERR_COUNT, name, "-3");
        }
    }

    /* Matched receives need a message; a receive that fails leaves it (section 3.8.3). */
    int flag;
    MPI_Message message;
    MPI_Datatype wrong[3] = {uncommitted, gone, overlapping};
    CHECK_OK(MPI_Isend(out, 1, MPI_INT, 0, 9, comm, &request));
    CHECK_OK(MPI_Improbe(0, 9, comm, &flag, &message, MPI_STATUS_IGNORE));
    CHECK(flag);
    const char *says[3] = {"datatype: the datatype is not committed", "datatype", "datatype: entries of one element"};
    for (int i = 0; i < 3; i++) {
        char text[MPI_MAX_ERROR_STRING + 1] = "";
        int length;
        MPI_Request matched;
        int codes[2] = {MPI_Mrecv(in, 1, wrong[i], &message, MPI_STATUS_IGNORE), MPI_Imrecv(in, 1, wrong[i], &message, &matched)};
        for (int j = 0; j < 2; j++) {
            CHECK_INT(check_class_of(codes[j]), MPI_ERR_TYPE);
            MPI_Error_string(codes[j], text, &length);
            if (j == 1 && !strstr(text, says[i])) CHECK_FAIL("matched receive: \"%s\"", text);
        }
    }
    CHECK_OK(MPI_Mrecv(in, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));

    /* What is wrong to receive into is right to send, and a type whose elements lie apart is right everywhere. */
    int position = 0;
    CHECK_OK(MPI_Isend(out, 1, overlapping, 0, 1, comm, &request));
    CHECK_OK(MPI_Recv(in, 2, MPI_INT, 0, 1, comm, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Bcast(out, 1, overlapping, 0, comm));
    CHECK_OK(MPI_Gather(out, 1, overlapping, in, 2, MPI_INT, 0, comm));
    CHECK_OK(MPI_Put(out, 1, overlapping, 0, 0, 2, MPI_INT, win));
    CHECK_OK(MPI_Get(in, 2, MPI_INT, 0, 0, 1, overlapping, win));
    CHECK_OK(MPI_Pack(out, 1, overlapping, in, sizeof in, &position, comm));
    CHECK_OK(MPI_Allgather(out, 1, sparse, in, 1, sparse, comm));
    CHECK_OK(MPI_Put(out, 1, sparse, 0, 0, 1, sparse, win));
    CHECK_OK(MPI_Win_unlock_all(win));

    CHECK_OK(MPI_Type_free(&uncommitted));
    CHECK_OK(MPI_Type_free(&overlapping));
    CHECK_OK(MPI_Type_free(&sparse));
    CHECK_OK(MPI_Op_free(&op));
    CHECK_OK(MPI_Win_free(&win));
    CHECK_OK(MPI_Comm_free(&ring));
    CHECK_OK(MPI_Comm_free(&comm));
    return check_end();
}
