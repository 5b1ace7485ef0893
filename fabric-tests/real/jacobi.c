/* Heat conduction in a plate by Jacobi iteration: a grid split into blocks with halo exchange, compared cell by cell with the
 * same iteration done by one process alone. As in textbooks: blocking, nonblocking, persistent and combined exchanges.
 *
 * Covers: 3.2.7, 3.7, 6.9, 7.4.2
 * Ranks: 1 2 3 4 5 6 7 8
 * Timeout: 120
 */
#include "check.h"

#define W 97
#define H 83
#define STEPS 120

static double border(int x, int y)
{
    return x == 0 ? 100.0 : x == W - 1 ? -20.0 + y : y == 0 ? 50.0 - x : y == H - 1 ? 25.0 : 0.0;
}

static double reference[2][H][W];

/* The whole grid, by one process. */
static const double (*serial(void))[W]
{
    for (int b = 0; b < 2; b++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) reference[b][y][x] = border(x, y);
    for (int step = 0; step < STEPS; step++) {
        double(*from)[W] = reference[step % 2], (*to)[W] = reference[1 - step % 2];
        for (int y = 1; y < H - 1; y++)
            for (int x = 1; x < W - 1; x++)
                to[y][x] = 0.25 * (from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1]);
    }
    return (const double(*)[W])reference[STEPS % 2];
}

/* How a whole is cut: the first cell of part i of n. */
static int cut(int whole, int n, int i)
{
    return (int)((long)whole * i / n);
}

static int columns_of(int ranks)
{
    int c = 1;
    for (int k = 1; k * k <= ranks; k++)
        if (ranks % k == 0) c = k;
    return c;
}

enum { LEFT, RIGHT, UP, DOWN };

struct halo {
    int neighbour[4];
    double *out[4], *in[4];
    int length[4];
};

/* The four sides' strips go to the neighbours; theirs come in. */
static void exchange(struct halo *h, int how, MPI_Request *persistent)
{
    static const int opposite[4] = {RIGHT, LEFT, DOWN, UP};
    MPI_Request requests[8];
    switch (how) {
    case 0: /* combined calls, one direction after the other */
        for (int d = 0; d < 4; d++)
            CHECK_OK(MPI_Sendrecv(h->out[d], h->length[d], MPI_DOUBLE, h->neighbour[d], d, h->in[opposite[d]], h->length[opposite[d]],
                                  MPI_DOUBLE, h->neighbour[opposite[d]], d, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        break;
    case 1: /* all at once */
        for (int d = 0; d < 4; d++)
            CHECK_OK(MPI_Irecv(h->in[d], h->length[d], MPI_DOUBLE, h->neighbour[d], opposite[d], MPI_COMM_WORLD, &requests[d]));
        for (int d = 0; d < 4; d++)
            CHECK_OK(MPI_Isend(h->out[d], h->length[d], MPI_DOUBLE, h->neighbour[d], d, MPI_COMM_WORLD, &requests[4 + d]));
        CHECK_OK(MPI_Waitall(8, requests, MPI_STATUSES_IGNORE));
        break;
    case 2: /* persistent */
        CHECK_OK(MPI_Startall(8, persistent));
        CHECK_OK(MPI_Waitall(8, persistent, MPI_STATUSES_IGNORE));
        break;
    default: /* synchronous sends against posted receives, in any order of completion */
        for (int d = 0; d < 4; d++)
            CHECK_OK(MPI_Irecv(h->in[d], h->length[d], MPI_DOUBLE, h->neighbour[d], opposite[d], MPI_COMM_WORLD, &requests[d]));
        for (int d = 0; d < 4; d++) CHECK_OK(MPI_Ssend(h->out[d], h->length[d], MPI_DOUBLE, h->neighbour[d], d, MPI_COMM_WORLD));
        for (int k = 0; k < 4; k++) {
            int index;
            CHECK_OK(MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE));
        }
    }
}

static void solve(int how, const double (*wanted)[W])
{
    int columns = columns_of(check_size), rows = check_size / columns, cx = check_rank % columns, cy = check_rank / columns;
    int x0 = cut(W, columns, cx), x1 = cut(W, columns, cx + 1), y0 = cut(H, rows, cy), y1 = cut(H, rows, cy + 1);
    int w = x1 - x0, h = y1 - y0, stride = w + 2;
    double *grid[2];
    for (int b = 0; b < 2; b++) {
        grid[b] = check_alloc(sizeof(double) * (size_t)(stride * (h + 2)));
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) grid[b][(y + 1) * stride + x + 1] = border(x0 + x, y0 + y);
    }
    struct halo halo;
    halo.neighbour[LEFT] = cx > 0 ? check_rank - 1 : MPI_PROC_NULL;
    halo.neighbour[RIGHT] = cx + 1 < columns ? check_rank + 1 : MPI_PROC_NULL;
    halo.neighbour[UP] = cy > 0 ? check_rank - columns : MPI_PROC_NULL;
    halo.neighbour[DOWN] = cy + 1 < rows ? check_rank + columns : MPI_PROC_NULL;
    for (int d = 0; d < 4; d++) {
        halo.length[d] = d == LEFT || d == RIGHT ? h : w;
        halo.out[d] = check_alloc(sizeof(double) * (size_t)halo.length[d]);
        halo.in[d] = check_alloc(sizeof(double) * (size_t)halo.length[d]);
    }
    MPI_Request persistent[8];
    if (how == 2)
        for (int d = 0; d < 4; d++) {
            static const int opposite[4] = {RIGHT, LEFT, DOWN, UP};
            CHECK_OK(MPI_Recv_init(halo.in[d], halo.length[d], MPI_DOUBLE, halo.neighbour[d], opposite[d], MPI_COMM_WORLD, &persistent[d]));
            CHECK_OK(MPI_Send_init(halo.out[d], halo.length[d], MPI_DOUBLE, halo.neighbour[d], d, MPI_COMM_WORLD, &persistent[4 + d]));
        }

    double change = 0;
    for (int step = 0; step < STEPS; step++) {
        double *from = grid[step % 2], *to = grid[1 - step % 2];
        for (int y = 0; y < h; y++) {
            halo.out[LEFT][y] = from[(y + 1) * stride + 1];
            halo.out[RIGHT][y] = from[(y + 1) * stride + w];
        }
        memcpy(halo.out[UP], &from[stride + 1], sizeof(double) * (size_t)w);
        memcpy(halo.out[DOWN], &from[h * stride + 1], sizeof(double) * (size_t)w);
        exchange(&halo, how, persistent);
        for (int y = 0; y < h; y++) {
            from[(y + 1) * stride] = halo.in[LEFT][y];
            from[(y + 1) * stride + w + 1] = halo.in[RIGHT][y];
        }
        memcpy(&from[1], halo.in[UP], sizeof(double) * (size_t)w);
        memcpy(&from[(h + 1) * stride + 1], halo.in[DOWN], sizeof(double) * (size_t)w);
        double mine = 0;
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                if (x0 + x == 0 || x0 + x == W - 1 || y0 + y == 0 || y0 + y == H - 1) continue;
                int at = (y + 1) * stride + x + 1;
                to[at] = 0.25 * (from[at - stride] + from[at + stride] + from[at - 1] + from[at + 1]);
                double moved = to[at] > from[at] ? to[at] - from[at] : from[at] - to[at];
                if (moved > mine) mine = moved;
            }
        if (step % 10 == 0) CHECK_OK(MPI_Allreduce(&mine, &change, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    }
    CHECK(change > 0 && change < 10);

    /* Bit by bit the same as the serial run: the operations are the same in the same order. */
    const double *result = grid[STEPS % 2];
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            if (result[(y + 1) * stride + x + 1] != wanted[y0 + y][x0 + x])
                CHECK_FAIL("cell %d,%d: got %g, wanted %g", x0 + x, y0 + y, result[(y + 1) * stride + x + 1], wanted[y0 + y][x0 + x]);

    /* The whole plate gathered on one rank, by blocks. */
    double *block = check_alloc(sizeof(double) * (size_t)(w * h)), *plate = NULL;
    int *counts = NULL, *displs = NULL;
    for (int y = 0; y < h; y++) memcpy(&block[y * w], &result[(y + 1) * stride + 1], sizeof(double) * (size_t)w);
    int root = check_size - 1;
    if (check_rank == root) {
        plate = check_alloc(sizeof(double) * W * H);
        counts = check_alloc(sizeof(int) * (size_t)check_size);
        displs = check_alloc(sizeof(int) * (size_t)check_size);
        for (int r = 0, at = 0; r < check_size; r++) {
            counts[r] = (cut(W, columns, r % columns + 1) - cut(W, columns, r % columns))
                        * (cut(H, rows, r / columns + 1) - cut(H, rows, r / columns));
            displs[r] = at;
            at += counts[r];
        }
    }
    CHECK_OK(MPI_Gatherv(block, w * h, MPI_DOUBLE, plate, counts, displs, MPI_DOUBLE, root, MPI_COMM_WORLD));
    if (check_rank == root) {
        double sum = 0, want = 0;
        for (int i = 0; i < W * H; i++) sum += plate[i];
        for (int r = 0; r < check_size; r++)
            for (int y = cut(H, rows, r / columns); y < cut(H, rows, r / columns + 1); y++)
                for (int x = cut(W, columns, r % columns); x < cut(W, columns, r % columns + 1); x++) want += wanted[y][x];
        CHECK(sum == want);
        free(plate);
        free(counts);
        free(displs);
    }
    if (how == 2)
        for (int i = 0; i < 8; i++) CHECK_OK(MPI_Request_free(&persistent[i]));
    for (int d = 0; d < 4; d++) {
        free(halo.out[d]);
        free(halo.in[d]);
    }
    free(block);
    free(grid[0]);
    free(grid[1]);
}

int main(int argc, char **argv)
{
    check_start(&argc, &argv);
    const double(*wanted)[W] = serial();
    for (int how = 0; how < 4; how++) solve(how, wanted);
    return check_end();
}
