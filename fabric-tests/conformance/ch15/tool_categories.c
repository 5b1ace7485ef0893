/* Categories: described, found by name, with exactly as many members as told, no more written than asked for, indices that exist, and no
 * category inside itself; events and sources can be counted.
 *
 * Covers: 15.3.8, 15.3.9
 * Ranks: 1
 */
#include "check.h"

#define LONG 4096
#define MANY 8192

static int depth(int category, int level)
{
    int parts = 0, *indices;
    if (level > 50) return 0;
    MPI_T_category_get_info(category, NULL, NULL, NULL, NULL, NULL, NULL, &parts);
    if (parts == 0) return 1;
    indices = check_alloc((size_t)parts * sizeof(int));
    CHECK_INT(MPI_T_category_get_categories(category, parts, indices), MPI_SUCCESS);
    int fine = 1;
    for (int i = 0; i < parts; i++) fine &= depth(indices[i], level + 1);
    free(indices);
    return fine;
}

int main(int argc, char **argv)
{
    int provided, n = -1, cvars = -1, pvars = -1, events = -1, sources = -1, first = -1, second = -1, index;
    static int indices[MANY];
    CHECK_INT(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
    check_start(&argc, &argv);
    CHECK_INT(MPI_T_category_changed(&first), MPI_SUCCESS);
    CHECK_INT(MPI_T_category_get_num(&n), MPI_SUCCESS);
    CHECK_INT(MPI_T_cvar_get_num(&cvars), MPI_SUCCESS);
    CHECK_INT(MPI_T_pvar_get_num(&pvars), MPI_SUCCESS);
    CHECK_INT(MPI_T_event_get_num(&events), MPI_SUCCESS);
    CHECK_INT(MPI_T_source_get_num(&sources), MPI_SUCCESS);
    CHECK(n >= 0 && cvars >= 0 && pvars >= 0 && events >= 0 && sources >= 0);
    for (int i = 0; i < n; i++) {
        char name[LONG] = "", desc[LONG] = "";
        int name_len = LONG, desc_len = LONG, c = -1, p = -1, parts = -1, e = -1;
        CHECK_INT(MPI_T_category_get_info(i, name, &name_len, desc, &desc_len, &c, &p, &parts), MPI_SUCCESS);
        CHECK_INT(name_len, strlen(name) + 1);
        CHECK_INT(desc_len, strlen(desc) + 1);
        CHECK_INT(MPI_T_category_get_index(name, &index), MPI_SUCCESS);
        CHECK_INT(index, i);
        CHECK_INT(MPI_T_category_get_num_events(i, &e), MPI_SUCCESS);
        CHECK(c <= cvars && p <= pvars && e <= events && c < MANY && p < MANY);
        for (int k = 0; k < MANY; k++) indices[k] = -7;
        CHECK_INT(MPI_T_category_get_cvars(i, MANY, indices), MPI_SUCCESS);
        for (int k = 0; k < MANY && k <= c; k++) CHECK(k < c ? indices[k] >= 0 && indices[k] < cvars : indices[k] == -7);
        for (int k = 0; k < MANY; k++) indices[k] = -7;
        CHECK_INT(MPI_T_category_get_pvars(i, MANY, indices), MPI_SUCCESS);
        for (int k = 0; k < MANY && k <= p; k++) CHECK(k < p ? indices[k] >= 0 && indices[k] < pvars : indices[k] == -7);
        CHECK_INT(MPI_T_category_get_events(i, MANY, indices), MPI_SUCCESS);
        if (c > 1) {
            indices[0] = indices[1] = -7;
            CHECK_INT(MPI_T_category_get_cvars(i, 1, indices), MPI_SUCCESS);
            CHECK(indices[0] >= 0 && indices[1] == -7);
        }
        CHECK(depth(i, 0));
    }
    CHECK_INT(MPI_T_category_get_index("no category has this name", &index), MPI_T_ERR_INVALID_NAME);
    CHECK_INT(MPI_T_event_get_index("no event has this name", &index), MPI_T_ERR_INVALID_NAME);
    CHECK_INT(MPI_T_category_changed(&second), MPI_SUCCESS);
    CHECK(second >= first);
    MPI_Finalize();
    CHECK_INT(MPI_T_finalize(), MPI_SUCCESS);
    return check_verdict();
}
