/* The example programs of sections 5.1.14 and 5.2, between two processes (or one with itself), and 5.9, 5.11, 5.12.
 *
 * Covers: 5.1.14, 5.2, 5.1.6, 5.1.11, 5.1.12
 * Ranks: 1 2 3
 */
#include "check.h"

static int peer, tag;

static void exchange(const void *out, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
                     MPI_Status *status)
{
    CHECK_OK(MPI_Sendrecv(out, count, type, peer, tag, in, in_count, in_type, peer, tag, MPI_COMM_WORLD, status));
}

static MPI_Datatype committed(MPI_Datatype type)
{
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

/* 5.13: a section of a 3-D array. Fortran's a(i,j,k) is a[k][j][i] here. */
static void section(void)
{
    static float a[100][100][100], e[9][9][9];
    MPI_Datatype oneslice, twoslice, threeslice;
    MPI_Aint lb, sizeofreal;
    for (int i = 0; i < 1000000; i++) (&a[0][0][0])[i] = (float)i;
    CHECK_OK(MPI_Type_get_extent(MPI_FLOAT, &lb, &sizeofreal));
    CHECK_OK(MPI_Type_vector(9, 1, 2, MPI_FLOAT, &oneslice));
    CHECK_OK(MPI_Type_create_hvector(9, 1, 100 * sizeofreal, oneslice, &twoslice));
    CHECK_OK(MPI_Type_create_hvector(9, 1, 100 * 100 * sizeofreal, twoslice, &threeslice));
    threeslice = committed(threeslice);
    exchange(&a[1][2][0], 1, threeslice, e, 9 * 9 * 9, MPI_FLOAT, MPI_STATUS_IGNORE);
    for (int k = 0; k < 9; k++)
        for (int j = 0; j < 9; j++)
            for (int i = 0; i < 9; i++) CHECK(e[k][j][i] == a[1 + k][2 + j][2 * i]);
    CHECK_OK(MPI_Type_free(&oneslice));
    CHECK_OK(MPI_Type_free(&twoslice));
    CHECK_OK(MPI_Type_free(&threeslice));
}

/* 5.14: the strictly lower triangle (below the diagonal in Fortran: above it in C). */
static void triangle(void)
{
    static float a[100][100], b[100][100];
    int disp[100], blocklen[100];
    MPI_Datatype ltype;
    for (int i = 0; i < 100; i++) {
        disp[i] = 100 * i + i + 1;
        blocklen[i] = 99 - i;
        for (int j = 0; j < 100; j++) a[i][j] = (float)(100 * i + j), b[i][j] = -1;
    }
    CHECK_OK(MPI_Type_indexed(100, blocklen, disp, MPI_FLOAT, &ltype));
    ltype = committed(ltype);
    exchange(a, 1, ltype, b, 1, ltype, MPI_STATUS_IGNORE);
    for (int i = 0; i < 100; i++)
        for (int j = 0; j < 100; j++) CHECK(b[i][j] == (j > i ? a[i][j] : -1));
    CHECK_OK(MPI_Type_free(&ltype));
}

/* 5.15 and 5.16: transposition, by one type and by a hundred of another. */
static void transpose(void)
{
    static float a[100][100], b[100][100];
    MPI_Datatype row, xpose, row1;
    MPI_Aint lb, sizeofreal;
    for (int i = 0; i < 10000; i++) (&a[0][0])[i] = (float)i;
    CHECK_OK(MPI_Type_get_extent(MPI_FLOAT, &lb, &sizeofreal));
    CHECK_OK(MPI_Type_vector(100, 1, 100, MPI_FLOAT, &row));
    CHECK_OK(MPI_Type_create_hvector(100, 1, sizeofreal, row, &xpose));
    CHECK_OK(MPI_Type_create_resized(row, 0, sizeofreal, &row1));
    xpose = committed(xpose);
    row1 = committed(row1);
    MPI_Datatype types[2] = {xpose, row1};
    for (int way = 0; way < 4; way++) {
        memset(b, 0, sizeof b);
        if (way < 2) exchange(a, way ? 100 : 1, types[way], b, 10000, MPI_FLOAT, MPI_STATUS_IGNORE);
        else exchange(a, 10000, MPI_FLOAT, b, way == 3 ? 100 : 1, types[way - 2], MPI_STATUS_IGNORE);
        for (int i = 0; i < 100; i++)
            for (int j = 0; j < 100; j++) CHECK(b[i][j] == a[j][i]);
    }
    CHECK_OK(MPI_Type_free(&row));
    CHECK_OK(MPI_Type_free(&xpose));
    CHECK_OK(MPI_Type_free(&row1));
}

struct Partstruct {
    int type;
    double d[6];
    char b[7];
};

static struct Partstruct particle[1000], got[1000];

static int same(const struct Partstruct *a, const struct Partstruct *b)
{
    return a->type == b->type && !memcmp(a->d, b->d, sizeof a->d) && !memcmp(a->b, b->b, sizeof a->b);
}

static int find_zeros(int *zdisp, int *zblock, int whole_blocks)
{
    int j = 0, k;
    for (int i = 0; i < 1000; i++)
        if (particle[i].type == 0) {
            for (k = i + 1; whole_blocks && k < 1000 && particle[k].type == 0; k++) {}
            zdisp[j] = i;
            zblock[j] = k - i;
            j++;
            i = k - 1;
        }
    return j;
}

static void compare_zeros(int count)
{
    int next = 0;
    for (int i = 0; i < 1000; i++)
        if (particle[i].type == 0) CHECK(same(&got[next++], &particle[i]));
    CHECK_INT(next, count);
}

/* 5.17 and 5.18: an array of structures, with relative and with absolute addresses. */
static void structures(void)
{
    MPI_Datatype Particlestruct, Particletype, Zparticles, Ztype, Allpairs, Twodouble, Onepair, Absolute;
    MPI_Datatype type[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, zztype[2];
    int blocklen[3] = {1, 6, 7}, zdisp[1000], zblock[1000], zzblock[2] = {1, 1}, j, received;
    MPI_Aint disp[3], absolute[3], base, lb, sizeofentry, zzdisp[2];
    MPI_Status status;
    static double pairs[1000][2];
    memset(particle, 0x11, sizeof particle);
    for (int i = 0; i < 1000; i++) {
        particle[i].type = i % 7 < 4 ? 0 : i % 7;
        for (int k = 0; k < 6; k++) particle[i].d[k] = i + k * 0.125;
        for (int k = 0; k < 7; k++) particle[i].b[k] = (char)(i + k);
    }
    CHECK_OK(MPI_Get_address(particle, disp));
    CHECK_OK(MPI_Get_address(particle[0].d, disp + 1));
    CHECK_OK(MPI_Get_address(particle[0].b, disp + 2));
    base = disp[0];
    for (int i = 0; i < 3; i++) absolute[i] = disp[i], disp[i] = MPI_Aint_diff(disp[i], base);
    CHECK_OK(MPI_Type_create_struct(3, blocklen, disp, type, &Particlestruct));
    CHECK_OK(MPI_Get_address(particle + 1, &sizeofentry));
    sizeofentry = MPI_Aint_diff(sizeofentry, base);
    CHECK_OK(MPI_Type_create_resized(Particlestruct, 0, sizeofentry, &Particletype));
    Particletype = committed(Particletype);

    /* 4.1: the entire array; the gaps of the receiver's structures stay as they are. */
    memset(got, 0x77, sizeof got);
    exchange(particle, 1000, Particletype, got, 1000, Particletype, MPI_STATUS_IGNORE);
    for (int i = 0; i < 1000; i++) {
        CHECK(same(&got[i], &particle[i]));
        CHECK_BYTES((char *)&got[i] + 4, 0x77, 4);
        CHECK_BYTES((char *)&got[i] + 63, 0x77, 1);
    }
    /* 4.2: those of type zero behind their number, both ways of finding them. */
    for (int whole = 0; whole < 2; whole++) {
        int blocks = find_zeros(zdisp, zblock, whole), total = 0;
        for (int i = 0; i < blocks; i++) total += zblock[i];
        j = total;
        CHECK_OK(MPI_Type_indexed(blocks, zblock, zdisp, Particletype, &Zparticles));
        CHECK_OK(MPI_Get_address(&j, zzdisp));
        CHECK_OK(MPI_Get_address(particle, zzdisp + 1));
        zztype[0] = MPI_INT;
        zztype[1] = Zparticles;
        CHECK_OK(MPI_Type_create_struct(2, zzblock, zzdisp, zztype, &Ztype));
        Ztype = committed(Ztype);
        /* Received likewise: a number and as many structures. */
        MPI_Datatype Rtype, rtypes[2] = {MPI_INT, Particletype};
        int rblocks[2] = {1, 1000};
        MPI_Aint rdisp[2];
        CHECK_OK(MPI_Get_address(&received, rdisp));
        CHECK_OK(MPI_Get_address(got, rdisp + 1));
        CHECK_OK(MPI_Type_create_struct(2, rblocks, rdisp, rtypes, &Rtype));
        Rtype = committed(Rtype);
        memset(got, 0, sizeof got);
        exchange(MPI_BOTTOM, 1, Ztype, MPI_BOTTOM, 1, Rtype, &status);
        CHECK_INT(received, total);
        compare_zeros(total);
        int elements;
        CHECK_OK(MPI_Get_elements(&status, Rtype, &elements));
        CHECK_INT(elements, 1 + 14 * total);
        CHECK_OK(MPI_Type_free(&Zparticles));
        CHECK_OK(MPI_Type_free(&Ztype));
        CHECK_OK(MPI_Type_free(&Rtype));
    }
    /* 4.3: the first two coordinates, two ways. */
    CHECK_OK(MPI_Type_get_extent(Particletype, &lb, &sizeofentry));
    CHECK_OK(MPI_Type_create_hvector(1000, 2, sizeofentry, MPI_DOUBLE, &Allpairs));
    Allpairs = committed(Allpairs);
    CHECK_OK(MPI_Type_contiguous(2, MPI_DOUBLE, &Twodouble));
    CHECK_OK(MPI_Type_create_resized(Twodouble, 0, sizeofentry, &Onepair));
    Onepair = committed(Onepair);
    for (int way = 0; way < 2; way++) {
        memset(pairs, 0, sizeof pairs);
        exchange(particle[0].d, way ? 1000 : 1, way ? Onepair : Allpairs, pairs, 2000, MPI_DOUBLE, MPI_STATUS_IGNORE);
        for (int i = 0; i < 1000; i++) CHECK(pairs[i][0] == particle[i].d[0] && pairs[i][1] == particle[i].d[1]);
    }
    /* 5.18: absolute addresses of the first entry. Its extent is that of the structure by the rules of alignment. */
    CHECK_OK(MPI_Type_create_struct(3, blocklen, absolute, type, &Absolute));
    Absolute = committed(Absolute);
    memset(got, 0, sizeof got);
    exchange(MPI_BOTTOM, 1000, Absolute, got, 1000, Particletype, MPI_STATUS_IGNORE);
    for (int i = 0; i < 1000; i++) CHECK(same(&got[i], &particle[i]));
    int blocks = find_zeros(zdisp, zblock, 1), total = 0;
    for (int i = 0; i < blocks; i++) total += zblock[i];
    j = total;
    CHECK_OK(MPI_Type_indexed(blocks, zblock, zdisp, Absolute, &Zparticles));
    CHECK_OK(MPI_Get_address(&j, zzdisp));
    zzdisp[1] = (MPI_Aint)0;
    zztype[0] = MPI_INT;
    zztype[1] = Zparticles;
    CHECK_OK(MPI_Type_create_struct(2, zzblock, zzdisp, zztype, &Ztype));
    Ztype = committed(Ztype);
    char *unit = malloc(70000);
    int position = 0, size;
    CHECK_OK(MPI_Type_size(Ztype, &size));
    memset(got, 0, sizeof got);
    exchange(MPI_BOTTOM, 1, Ztype, unit, 70000, MPI_PACKED, &status);
    CHECK_OK(MPI_Unpack(unit, size, &position, &received, 1, MPI_INT, MPI_COMM_WORLD));
    CHECK_INT(received, total);
    CHECK_OK(MPI_Unpack(unit, size, &position, got, received, Particletype, MPI_COMM_WORLD));
    CHECK_INT(position, size);
    compare_zeros(total);
    free(unit);
    MPI_Datatype all[] = {Particlestruct, Particletype, Zparticles, Ztype, Allpairs, Twodouble, Onepair, Absolute};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) CHECK_OK(MPI_Type_free(&all[i]));
}

/* 5.19: unions. */
static void unions(void)
{
    static union { int ival; float fval; } u[1000], v[1000];
    MPI_Datatype mpi_utype[2];
    MPI_Aint ubase, extent;
    CHECK_OK(MPI_Get_address(u, &ubase));
    CHECK_OK(MPI_Get_address(u + 1, &extent));
    extent = MPI_Aint_diff(extent, ubase);
    CHECK_OK(MPI_Type_create_resized(MPI_INT, 0, extent, &mpi_utype[0]));
    CHECK_OK(MPI_Type_create_resized(MPI_FLOAT, 0, extent, &mpi_utype[1]));
    for (int utype = 0; utype < 2; utype++) {
        mpi_utype[utype] = committed(mpi_utype[utype]);
        for (int i = 0; i < 1000; i++)
            if (utype) u[i].fval = (float)i / 2;
            else u[i].ival = -i;
        memset(v, 0, sizeof v);
        exchange(u, 1000, mpi_utype[utype], v, 1000, mpi_utype[utype], MPI_STATUS_IGNORE);
        CHECK(memcmp(u, v, sizeof u) == 0);
        CHECK_OK(MPI_Type_free(&mpi_utype[utype]));
    }
}

/* 5.20: decoding; here it writes into a string. */
static char told[300];
static int printdatatype(MPI_Datatype datatype)
{
    int num_ints, num_adds, num_dtypes, combiner;
    CHECK_OK(MPI_Type_get_envelope(datatype, &num_ints, &num_adds, &num_dtypes, &combiner));
    char *end = told + strlen(told);
    if (combiner == MPI_COMBINER_NAMED) {
        sprintf(end, "%s ", datatype == MPI_INT ? "int" : datatype == MPI_DOUBLE ? "double" : "other");
        return 0;
    }
    CHECK(combiner == MPI_COMBINER_STRUCT);
    int *ints = malloc((size_t)num_ints * sizeof *ints);
    MPI_Aint *adds = malloc((size_t)num_adds * sizeof *adds);
    MPI_Datatype *dtypes = malloc((size_t)num_dtypes * sizeof *dtypes);
    CHECK_OK(MPI_Type_get_contents(datatype, num_ints, num_adds, num_dtypes, ints, adds, dtypes));
    sprintf(end, "struct %d: ", ints[0]);
    for (int i = 0; i < ints[0]; i++) {
        sprintf(told + strlen(told), "%dx%ld ", ints[i + 1], (long)adds[i]);
        if (printdatatype(dtypes[i])) CHECK_OK(MPI_Type_free(&dtypes[i]));
    }
    free(ints);
    free(adds);
    free(dtypes);
    return 1;
}

static void decode(void)
{
    MPI_Datatype inner, outer, types[2] = {MPI_INT, MPI_DOUBLE};
    int lengths[2] = {2, 3};
    MPI_Aint places[2] = {0, 8}, outside[2] = {100, -40};
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, types, &inner));
    types[1] = inner;
    CHECK_OK(MPI_Type_create_struct(2, lengths, outside, types, &outer));
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_INT(printdatatype(outer), 1);
    CHECK_STR(told, "struct 2: 2x100 int 3x-40 struct 2: 2x0 int 3x8 double ");
    CHECK_OK(MPI_Type_free(&outer));
}

/* 5.21, 5.22: packing units, received as what they hold. */
static void pack(void)
{
    int position = 0, i = 17, j = 4, a[2];
    char buff[1000], come[1000];
    MPI_Status status;
    CHECK_OK(MPI_Pack(&i, 1, MPI_INT, buff, 1000, &position, MPI_COMM_WORLD));
    CHECK_OK(MPI_Pack(&j, 1, MPI_INT, buff, 1000, &position, MPI_COMM_WORLD));
    exchange(buff, position, MPI_PACKED, a, 2, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(a[0] == 17 && a[1] == 4);

    float from[200], to[200];
    int n = 200, len[2] = {1, 200};
    MPI_Aint disp[2];
    MPI_Datatype type[2] = {MPI_INT, MPI_FLOAT}, newtype;
    for (int k = 0; k < 200; k++) from[k] = (float)k / 4, to[k] = -1;
    CHECK_OK(MPI_Get_address(&n, disp));
    CHECK_OK(MPI_Get_address(from, disp + 1));
    CHECK_OK(MPI_Type_create_struct(2, len, disp, type, &newtype));
    newtype = committed(newtype);
    for (int way = 0; way < 2; way++) { /* packed first, or sent as it is */
        position = 0;
        if (way == 0) {
            CHECK_OK(MPI_Pack(MPI_BOTTOM, 1, newtype, buff, 1000, &position, MPI_COMM_WORLD));
            exchange(buff, position, MPI_PACKED, come, 1000, MPI_PACKED, &status);
        } else
            exchange(MPI_BOTTOM, 1, newtype, come, 1000, MPI_PACKED, &status);
        int number = 0;
        position = 0;
        CHECK_OK(MPI_Unpack(come, 1000, &position, &number, 1, MPI_INT, MPI_COMM_WORLD));
        CHECK_INT(number, 200);
        CHECK_OK(MPI_Unpack(come, 1000, &position, to, number, MPI_FLOAT, MPI_COMM_WORLD));
        CHECK(memcmp(from, to, sizeof to) == 0);
    }
    CHECK_OK(MPI_Type_free(&newtype));
}

/* 5.23: strings of different length gathered at a root. */
static void gather(void)
{
    int count = 3 + 2 * check_rank, k1, k2, k, position = 0, root = 0, counts[64], displs[64];
    char chr[100], *rbuf, cbuf[300];
    MPI_Comm comm = MPI_COMM_WORLD;
    memset(chr, 'a' + check_rank, sizeof chr);
    CHECK_OK(MPI_Pack_size(1, MPI_INT, comm, &k1));
    CHECK_OK(MPI_Pack_size(count, MPI_CHAR, comm, &k2));
    k = k1 + k2;
    char *lbuf = malloc((size_t)k);
    CHECK_OK(MPI_Pack(&count, 1, MPI_INT, lbuf, k, &position, comm));
    CHECK_OK(MPI_Pack(chr, count, MPI_CHAR, lbuf, k, &position, comm));
    if (check_rank != root) {
        CHECK_OK(MPI_Gather(&position, 1, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, comm));
        CHECK_OK(MPI_Gatherv(lbuf, position, MPI_PACKED, NULL, NULL, NULL, MPI_DATATYPE_NULL, root, comm));
    } else {
        CHECK_OK(MPI_Gather(&position, 1, MPI_INT, counts, 1, MPI_INT, root, comm));
        displs[0] = 0;
        for (int i = 1; i < check_size; i++) displs[i] = displs[i - 1] + counts[i - 1];
        int totalcount = displs[check_size - 1] + counts[check_size - 1], concat_pos = 0;
        rbuf = malloc((size_t)totalcount);
        CHECK_OK(MPI_Gatherv(lbuf, position, MPI_PACKED, rbuf, counts, displs, MPI_PACKED, root, comm));
        for (int i = 0; i < check_size; i++) {
            position = 0;
            CHECK_OK(MPI_Unpack(rbuf + displs[i], totalcount - displs[i], &position, &count, 1, MPI_INT, comm));
            CHECK_OK(MPI_Unpack(rbuf + displs[i], totalcount - displs[i], &position, cbuf + concat_pos, count, MPI_CHAR,
                                comm));
            concat_pos += count;
        }
        cbuf[concat_pos] = '\0';
        char wanted[300] = "";
        for (int i = 0; i < check_size; i++)
            for (int n = 0; n < 3 + 2 * i; n++) sprintf(wanted + strlen(wanted), "%c", 'a' + i);
        CHECK_STR(cbuf, wanted);
        free(rbuf);
    }
    free(lbuf);
}

/* 5.12: whole elements and basic ones. */
static void counts(void)
{
    float a[4] = {1, 2, 3, 4}, b[4];
    int n;
    MPI_Datatype Type2;
    MPI_Status status;
    CHECK_OK(MPI_Type_contiguous(2, MPI_FLOAT, &Type2));
    Type2 = committed(Type2);
    exchange(a, 2, MPI_FLOAT, b, 2, Type2, &status);
    CHECK_OK(MPI_Get_count(&status, Type2, &n));
    CHECK_INT(n, 1);
    CHECK_OK(MPI_Get_elements(&status, Type2, &n));
    CHECK_INT(n, 2);
    exchange(a, 3, MPI_FLOAT, b, 2, Type2, &status);
    CHECK_OK(MPI_Get_count(&status, Type2, &n));
    CHECK_INT(n, MPI_UNDEFINED);
    CHECK_OK(MPI_Get_elements(&status, Type2, &n));
    CHECK_INT(n, 3);
    CHECK_OK(MPI_Type_free(&Type2));
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    peer = check_rank; /* pairs; the last of an odd number talks to itself */
    if ((check_rank ^ 1) < check_size) peer = check_rank ^ 1;
    tag = 4;
    section();
    triangle();
    transpose();
    structures();
    unions();
    decode();
    pack();
    gather();
    counts();
    return check_end();
}
