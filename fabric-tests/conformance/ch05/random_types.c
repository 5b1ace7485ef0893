/* Random nested datatypes against a reference that lists every basic element: size, bounds, messages to and from a flat type of
 * the same signature, gaps untouched, parts of an element, packing, broadcast. (In MPICH 5.0 bounds that a resized part has set do
 * not win over natural ones.)
 *
 * Covers: 5.1, 5.1.2, 5.1.6, 5.1.7, 5.1.8, 5.1.11, 5.2
 * Ranks: 1 2
 * Timeout: 120
 */
#include "check.h"

#define MOST 600
#define ROOM (1 << 17)
#define TYPES 300

/* What a datatype is by definition: basic elements in order, and bounds. Sticky bounds come from resized and subarray types. */
struct map {
    int n, sticky, align;
    long lb, ub;
    long disp[MOST];
    int basic[MOST];
};

static MPI_Datatype basics[4] = {MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE};
static const int basic_size[4] = {1, 2, 4, 8};

static unsigned state;
static int roll(int n)
{
    state = state * 1664525u + 1013904223u;
    return (int)(((uint64_t)(state >> 4) * (unsigned)n) >> 28);
}

static void empty(struct map *m)
{
    memset(m, 0, sizeof *m);
    m->align = 1;
}

static int has_bounds(const struct map *m)
{
    return m->n > 0 || m->sticky;
}

/* Appends a copy of part at a displacement. */
static void append(struct map *whole, const struct map *part, long at)
{
    for (int i = 0; i < part->n; i++) {
        whole->disp[whole->n] = part->disp[i] + at;
        whole->basic[whole->n++] = part->basic[i];
    }
}

/* Bounds of a whole that grows by a copy of part: sticky bounds win over natural ones. */
static void widen(struct map *whole, const struct map *part, long at, int *seen)
{
    if (!has_bounds(part) || (*seen && whole->sticky && !part->sticky)) return;
    if (!*seen || (part->sticky && !whole->sticky)) {
        whole->lb = part->lb + at;
        whole->ub = part->ub + at;
    } else {
        if (part->lb + at < whole->lb) whole->lb = part->lb + at;
        if (part->ub + at > whole->ub) whole->ub = part->ub + at;
    }
    whole->sticky |= part->sticky;
    if (part->align > whole->align) whole->align = part->align;
    *seen = 1;
}

static long extent(const struct map *m)
{
    return m->ub - m->lb;
}

static MPI_Datatype make(int depth, struct map *m)
{
    MPI_Datatype type, part;
    static struct map parts[6][4];
    empty(m);
    if (depth == 0) {
        int b = roll(4);
        m->n = 1;
        m->basic[0] = b;
        m->ub = m->align = basic_size[b];
        CHECK_OK(MPI_Type_dup(basics[b], &type));
        return type;
    }
    struct map *p = parts[depth];
    int kind = roll(9), seen = 0, lengths[4], displs[4];
    MPI_Aint bytes[4];
    part = make(kind == 7 ? depth - 1 : roll(depth), &p[0]);
    long e = extent(&p[0]);
    /* Steps that keep the alignment of everything inside. */
    int blocks = 1 + roll(3), length = 1 + roll(3), step = length + roll(3);
    if (p[0].n * blocks * length > MOST / 2) blocks = length = 1;
    switch (kind) {
    case 0:
        CHECK_OK(MPI_Type_contiguous(blocks, part, &type));
        for (int i = 0; i < blocks; i++) append(m, &p[0], i * e), widen(m, &p[0], i * e, &seen);
        break;
    case 1:
    case 2: {
        long stride = kind == 1 ? step * e : (step * e + 15 + 16 * roll(2)) / 16 * 16;
        if (roll(4) == 0) stride = -stride;
        if (kind == 1)
            CHECK_OK(MPI_Type_vector(blocks, length, stride < 0 ? -step : step, part, &type));
        else
            CHECK_OK(MPI_Type_create_hvector(blocks, length, stride, part, &type));
        for (int b = 0; b < blocks; b++)
            for (int i = 0; i < length; i++) append(m, &p[0], b * stride + i * e), widen(m, &p[0], b * stride + i * e, &seen);
        break;
    }
    case 3:
    case 4:
    case 5: {
        long at = roll(3);
        for (int b = 0; b < blocks; b++) {
            lengths[b] = kind == 5 ? length : roll(4) ? 1 + roll(2) : 0;
            displs[b] = (int)at;
            bytes[b] = (at * e + 15) / 16 * 16;
            at += (kind == 5 ? length : 2) + roll(3) + (kind == 4 ? 16 : 0);
        }
        /* Not in the order of addresses. */
        if (blocks > 1 && roll(2)) {
            int d = displs[0];
            MPI_Aint a = bytes[0];
            displs[0] = displs[1], displs[1] = d;
            bytes[0] = bytes[1], bytes[1] = a;
        }
        if (kind == 3)
            CHECK_OK(MPI_Type_indexed(blocks, lengths, displs, part, &type));
        else if (kind == 4)
            CHECK_OK(MPI_Type_create_hindexed(blocks, lengths, bytes, part, &type));
        else
            CHECK_OK(MPI_Type_create_indexed_block(blocks, length, displs, part, &type));
        for (int b = 0; b < blocks; b++)
            for (int i = 0; i < lengths[b]; i++) {
                long d = (kind == 4 ? bytes[b] : displs[b] * e) + i * e;
                append(m, &p[0], d);
                widen(m, &p[0], d, &seen);
            }
        break;
    }
    case 6: {
        MPI_Datatype inside[3] = {part, MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
        long at = 16 * roll(2);
        if (p[0].n > MOST / 6) blocks = 1;
        for (int b = 0; b < blocks; b++) {
            if (b > 0) inside[b] = make(roll(depth), &p[b]);
            if (p[b].n * 2 + m->n > MOST / 2) {
                /* Too big: nothing of it. */
                lengths[b] = 0;
            } else
                lengths[b] = 1 + roll(2);
            bytes[b] = at - (p[b].lb < 0 ? (p[b].lb - 15) / 16 * 16 : 0);
            at = bytes[b] + ((p[b].ub > 0 ? p[b].ub : 0) + (lengths[b] > 1 ? labs(extent(&p[b])) : 0) + 31) / 16 * 16;
            for (int i = 0; i < lengths[b]; i++) {
                append(m, &p[b], bytes[b] + i * extent(&p[b]));
                widen(m, &p[b], bytes[b] + i * extent(&p[b]), &seen);
            }
        }
        CHECK_OK(MPI_Type_create_struct(blocks, lengths, bytes, inside, &type));
        for (int b = 1; b < blocks; b++) CHECK_OK(MPI_Type_free(&inside[b]));
        if (!m->sticky && seen) m->ub = m->lb + (extent(m) + m->align - 1) / m->align * m->align;
        break;
    }
    case 7: {
        long lb = -16 * roll(2), size = (e < 0 ? -e : e) + 16 * (1 + roll(2));
        CHECK_OK(MPI_Type_create_resized(part, lb, size, &type));
        append(m, &p[0], 0);
        m->lb = lb;
        m->ub = lb + size;
        m->align = p[0].align;
        m->sticky = 1;
        break;
    }
    default: {
        int sizes[2] = {2 + roll(2), 2 + roll(3)}, subs[2], starts[2], c = roll(2);
        for (int d = 0; d < 2; d++) {
            subs[d] = 1 + roll(sizes[d] - 1);
            starts[d] = roll(sizes[d] - subs[d] + 1);
        }
        if (p[0].n * 9 > MOST / 2) subs[0] = subs[1] = 1;
        CHECK_OK(MPI_Type_create_subarray(2, sizes, subs, starts, c ? MPI_ORDER_C : MPI_ORDER_FORTRAN, part, &type));
        int slow = c ? 0 : 1, fast = 1 - slow;
        for (int a = 0; a < subs[slow]; a++)
            for (int b = 0; b < subs[fast]; b++)
                append(m, &p[0], ((long)(starts[slow] + a) * sizes[fast] + starts[fast] + b) * e);
        m->lb = 0;
        m->ub = (long)sizes[0] * sizes[1] * e;
        m->align = p[0].align;
        m->sticky = 1;
    }
    }
    CHECK_OK(MPI_Type_free(&part));
    return type;
}

/* The same basic elements without gaps, as far as `count` goes. */
static MPI_Datatype flat_type(const struct map *m, int elements, size_t *bytes)
{
    static int ones[MOST * 3];
    static MPI_Aint at[MOST * 3];
    static MPI_Datatype kinds[MOST * 3];
    MPI_Datatype type;
    *bytes = 0;
    for (int i = 0; i < elements; i++) {
        ones[i] = 1;
        at[i] = (MPI_Aint)*bytes;
        kinds[i] = basics[m->basic[i % m->n]];
        *bytes += (size_t)basic_size[m->basic[i % m->n]];
    }
    CHECK_OK(MPI_Type_create_struct(elements, ones, at, kinds, &type));
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

static unsigned char memory[ROOM], image[ROOM], flat[ROOM], expected[ROOM];

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    int peer = check_size - 1 - check_rank, tried = 0, received = 0;
    static struct map m;
    for (unsigned seed = 1; seed <= TYPES && check_failures == 0; seed++) {
        state = seed * 2654435761u;
        MPI_Datatype type = make(1 + roll(4), &m), flat_kind;
        CHECK_OK(MPI_Type_commit(&type));
        int size = 0, want = 0, count = 1 + roll(3);
        MPI_Aint lb, ext, true_lb, true_ext;
        long low = 0, high = 0;
        for (int i = 0; i < m.n; i++) {
            want += basic_size[m.basic[i]];
            if (i == 0 || m.disp[i] < low) low = m.disp[i];
            if (i == 0 || m.disp[i] + basic_size[m.basic[i]] > high) high = m.disp[i] + basic_size[m.basic[i]];
        }
        CHECK_OK(MPI_Type_size(type, &size));
        CHECK_INT(size, want);
        CHECK_OK(MPI_Type_get_extent(type, &lb, &ext));
        if (m.n > 0) {
            CHECK_INT(lb, m.lb);
            CHECK_INT(ext, extent(&m));
            CHECK_OK(MPI_Type_get_true_extent(type, &true_lb, &true_ext));
            CHECK_INT(true_lb, low);
            CHECK_INT(true_ext, high - low);
        }
        if (check_failures) fprintf(stderr, "that was type %u\n", seed);
        if (m.n == 0 || check_failures) {
            CHECK_OK(MPI_Type_free(&type));
            continue;
        }
        /* Where the whole of it lies, for `count` of them. */
        long step = extent(&m), least = low, most = high;
        for (int c = 1; c < count; c++) {
            if (low + c * step < least) least = low + c * step;
            if (high + c * step > most) most = high + c * step;
        }
        if (most - least + 128 > ROOM || m.n * count > MOST * 3) {
            CHECK_OK(MPI_Type_free(&type));
            continue;
        }
        unsigned char *base = memory + 64 - least;
        size_t bytes, packed = 0;
        fill(memory, sizeof memory, seed);
        memset(image, 0, sizeof image);
        int overlap = 0;
        for (int c = 0; c < count; c++)
            for (int i = 0; i < m.n; i++) {
                unsigned char *from = base + c * step + m.disp[i];
                for (int b = 0; b < basic_size[m.basic[i]]; b++) overlap |= image[from - memory + b]++;
                memcpy(expected + packed, from, (size_t)basic_size[m.basic[i]]);
                packed += (size_t)basic_size[m.basic[i]];
            }
        flat_kind = flat_type(&m, m.n * count, &bytes);
        CHECK_INT(bytes, packed);
        /* Out of the type. */
        MPI_Request request;
        MPI_Status status;
        int elements = -1, whole = -1;
        memset(flat, 0x77, sizeof flat);
        CHECK_OK(MPI_Isend(base, count, type, peer, 1, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Recv(flat, 1, flat_kind, peer, 1, MPI_COMM_WORLD, &status));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (memcmp(flat, expected, packed) != 0) CHECK_FAIL("type %u: sent bytes differ", seed);
        CHECK_BYTES(flat + packed, 0x77, 64);
        CHECK_OK(MPI_Get_elements(&status, type, &elements));
        CHECK_INT(elements, m.n * count);
        CHECK_OK(MPI_Get_count(&status, type, &whole));
        CHECK_INT(whole, count);
        tried++;
        /* Into the type, where its entries do not overlap. */
        if (!overlap) {
            received++;
            memset(memory, 0x33, sizeof memory);
            CHECK_OK(MPI_Isend(flat, 1, flat_kind, peer, 2, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Recv(base, count, type, peer, 2, MPI_COMM_WORLD, &status));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (size_t at = 0; at < sizeof memory; at++)
                if (!image[at] && memory[at] != 0x33) {
                    CHECK_FAIL("type %u: a gap was written", seed);
                    break;
                }
            size_t at = 0;
            for (int c = 0; c < count; c++)
                for (int i = 0; i < m.n; i++) {
                    if (memcmp(base + c * step + m.disp[i], expected + at, (size_t)basic_size[m.basic[i]]) != 0) {
                        CHECK_FAIL("type %u: element %d of %d is wrong", seed, c * m.n + i, count * m.n);
                        i = m.n, c = count;
                        break;
                    }
                    at += (size_t)basic_size[m.basic[i]];
                }
            /* A part of it only. */
            int part = 1 + roll(m.n * count);
            size_t part_bytes;
            MPI_Datatype part_kind = flat_type(&m, part, &part_bytes);
            memset(memory, 0x33, sizeof memory);
            CHECK_OK(MPI_Isend(flat, 1, part_kind, peer, 3, MPI_COMM_WORLD, &request));
            CHECK_OK(MPI_Recv(base, count, type, peer, 3, MPI_COMM_WORLD, &status));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK_OK(MPI_Get_elements(&status, type, &elements));
            CHECK_INT(elements, part);
            CHECK_OK(MPI_Get_count(&status, type, &whole));
            CHECK_INT(whole, part % m.n ? MPI_UNDEFINED : part / m.n);
            int k = 0;
            for (int c = 0; c < count; c++)
                for (int i = 0; i < m.n; i++, k++)
                    if (k >= part) CHECK_BYTES(base + c * step + m.disp[i], 0x33, basic_size[m.basic[i]]);
            CHECK_OK(MPI_Type_free(&part_kind));
            /* By broadcast, from the type to the type. */
            if (check_rank == 0) fill(memory, sizeof memory, seed + 1);
            if (check_rank != 0) memset(memory, 0x33, sizeof memory);
            CHECK_OK(MPI_Bcast(base, count, type, 0, MPI_COMM_WORLD));
            fill(flat, sizeof flat, seed + 1);
            for (size_t b = 0; b < sizeof memory; b++)
                if (memory[b] != (image[b] || check_rank == 0 ? flat[b] : 0x33)) {
                    CHECK_FAIL("type %u: broadcast is wrong at %zu", seed, b);
                    break;
                }
            /* Packed and unpacked. */
            int room = 0, position = 0, back = 0;
            CHECK_OK(MPI_Pack_size(count, type, MPI_COMM_WORLD, &room));
            CHECK(room >= (int)packed);
            if (room <= ROOM) {
                fill(memory, sizeof memory, seed + 2);
                memcpy(expected, memory, sizeof memory);
                CHECK_OK(MPI_Pack(base, count, type, flat, ROOM, &position, MPI_COMM_WORLD));
                CHECK(position <= room);
                memset(memory, 0x44, sizeof memory);
                CHECK_OK(MPI_Unpack(flat, position, &back, base, count, type, MPI_COMM_WORLD));
                CHECK_INT(back, position);
                for (size_t b = 0; b < sizeof memory; b++)
                    if (memory[b] != (image[b] ? expected[b] : 0x44)) {
                        CHECK_FAIL("type %u: unpacked is wrong at %zu", seed, b);
                        break;
                    }
            }
        }
        CHECK_OK(MPI_Type_free(&flat_kind));
        CHECK_OK(MPI_Type_free(&type));
    }
    CHECK(tried > TYPES / 2 && received > TYPES / 4);
    return check_end();
}
