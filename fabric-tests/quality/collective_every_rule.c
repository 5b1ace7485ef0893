/* Every algorithm of every operation that rules can name, as the library lists them itself where a rule names none: each gives the right
 * result in all three forms, in place or not, with operations that commute or not, with none, few and many elements. A rule for
 * an algorithm that does not fit a call leaves the choice to the others.
 *
 * Covers: 6
 * Ranks: 2 4 5
 * Timeout: 120
 */
#include "../conformance/ch06/every.h"

enum { MOST_NAMES = 32, LONGEST = 64 };

static const struct { const char *operation; enum kind kind; } kinds[] = {
    {"barrier", BARRIER}, {"bcast", BCAST}, {"gather", GATHER}, {"gatherv", GATHERV}, {"scatter", SCATTER}, {"scatterv", SCATTERV},
    {"allgather", ALLGATHER}, {"allgatherv", ALLGATHERV}, {"alltoall", ALLTOALL}, {"alltoallv", ALLTOALLV}, {"alltoallw", ALLTOALLW},
    {"reduce", REDUCE}, {"allreduce", ALLREDUCE}, {"reduce_scatter", REDUCE_SCATTER_BLOCK}, {"reduce_scatter", REDUCE_SCATTER},
    {"scan", SCAN}, {"exscan", EXSCAN}};

static int rule(MPI_Comm comm, const char *text)
{
    MPI_Info info;
    CHECK_OK(MPI_Info_create(&info));
    CHECK_OK(MPI_Info_set(info, "weft_collectives", text));
    int code = MPI_Comm_set_info(comm, info);
    CHECK_OK(MPI_Info_free(&info));
    return code;
}

/* The names that stand in the error behind `lead`, separated by commas. */
static int names(MPI_Comm comm, const char *wrong, const char *lead, char found[MOST_NAMES][LONGEST])
{
    char text[MPI_MAX_ERROR_STRING];
    int length, code = rule(comm, wrong), n = 0;
    if (check_class_of(code) != MPI_ERR_INFO_VALUE) CHECK_FAIL("\"%s\": class %d", wrong, check_class_of(code));
    CHECK_OK(MPI_Error_string(code, text, &length));
    char *list = strstr(text, lead);
    /* Not cut at the end of the room for the text. */
    if (list == NULL || length > MPI_MAX_ERROR_STRING - 8) CHECK_FAIL("\"%s\": no list in \"%s\"", wrong, text);
    else
        for (char *word = strtok(list + strlen(lead), ", "); word != NULL && n < MOST_NAMES; word = strtok(NULL, ", ")) {
            CHECK(strlen(word) < LONGEST);
            strncpy(found[n], word, LONGEST - 1);
            found[n++][LONGEST - 1] = 0;
        }
    CHECK(n > 0 && n < MOST_NAMES);
    return n;
}

static void try_kind(MPI_Comm comm, enum kind kind)
{
    const int counts[] = {0, 1, 9, 700};
    for (int c = 0; c < (kind == BARRIER ? 1 : 4); c++)
        for (int form = BLOCKING; form < FORMS; form++)
            for (int in_place = 0; in_place < (kind == BARRIER || kind == BCAST ? 1 : 2); in_place++)
                for (int ordered = 0; ordered < (reduces(kind) ? 2 : 1); ordered++) {
                    struct work w = work_of(kind, (enum form)form, comm, counts[c]);
                    w.in_place = in_place, w.ordered = ordered, w.root = (c + form) % w.n;
                    if (form == PERSISTENT) work_init(&w);
                    work_fill(&w, 10 * c + form);
                    work_begin(&w);
                    work_end(&w);
                    work_check(&w);
                    work_free(&w);
                }
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    every_start();
    static char operations[MOST_NAMES][LONGEST], algorithms[MOST_NAMES][LONGEST];
    char text[2 * LONGEST + 8];
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    CHECK_OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    int n = names(comm, "? -> ?", "known are ", operations), all = 0;
    for (int o = 0; o < n; o++) {
        int known = 0;
        snprintf(text, sizeof text, "%.63s -> ?", operations[o]);
        int m = names(comm, text, "it has ", algorithms);
        for (int a = 0; a < m; a++) {
            snprintf(text, sizeof text, "%.63s -> %.63s", operations[o], algorithms[a]);
            CHECK_OK(rule(comm, text));
            int failures = check_failures;
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
                if (strcmp(kinds[k].operation, operations[o]) == 0) try_kind(comm, kinds[k].kind), known = 1;
            if (check_failures != failures) CHECK_FAIL("by the rule \"%s\"", text);
            all++;
        }
        if (!known) CHECK_FAIL("there are rules for %.63s, which this program does not know", operations[o]);
    }
    CHECK(n >= 16 && all >= 50);
    if (check_rank == 0) printf("%d algorithms of %d operations\n", all, n);
    CHECK_OK(MPI_Comm_free(&comm));
    every_end();
    return check_end();
}
