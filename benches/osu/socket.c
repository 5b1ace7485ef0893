/* What the network itself takes, without MPI: the rows `latency` and `bw` of compare.c over one bare socket.
 *
 * Usage: socket tcp|udp listen|connect ADDRESS PORT [--sizes A,B,...] [--core N] [--time MS]
 * The side that listens is started first and answers; the one that connects measures and prints, one line for each row:
 * NAME SIZE SECONDS BYTES, with SECONDS as in compare.c. Both look at their socket without waiting, as MPI's ranks do.
 * UDP has only the latency, of messages that fit into one packet.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BATCHES = 20000, FEWEST_BATCHES = 12, WINDOW = 64, LARGEST = 4 << 20, PACKET = 1400 };

static double samples[MOST_BATCHES];
static char *buffer;
static int fd, udp;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void put(size_t size)
{
    size_t done = 0;
    do {
        ssize_t count = send(fd, buffer + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0)
            done += (size_t)count;
        else if (errno != EAGAIN && errno != EINTR)
            fail("send");
    } while (done < size);
}

static void get(size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = recv(fd, buffer + done, size - done, MSG_DONTWAIT);
        if (count == 0)
            exit(0);
        if (count > 0)
            done += (size_t)count;
        else if (errno != EAGAIN && errno != EINTR)
            fail("recv");
    }
}

/* One operation of a row: a round trip, or a window of messages and its answer. */
static void operation(int bandwidth, size_t size, int first)
{
    int i;
    if (!bandwidth) {
        if (first) {
            put(size);
            get(size);
        } else {
            get(size);
            put(size);
        }
    } else if (first) {
        for (i = 0; i < WINDOW; i++)
            put(size);
        get(1);
    } else {
        get(size * WINDOW);
        put(1);
    }
}

/* What the measuring side wants next; it travels before each series. */
struct order {
    long bandwidth, size, operations;
};

static void series(struct order order, int first)
{
    long i;
    if (first) {
        memcpy(buffer, &order, sizeof order);
        put(sizeof order);
        get(1);
    } else {
        get(sizeof order);
        memcpy(&order, buffer, sizeof order);
        put(1);
    }
    for (i = 0; i < order.operations; i++)
        operation((int)order.bandwidth, (size_t)order.size, first);
}

static void row(int bandwidth, long size, double seconds)
{
    int batch, wanted;
    long each;
    double began = now(), took;
    series((struct order){bandwidth, size, 20}, 1);
    took = (now() - began) / 20;
    each = (long)(40e-6 / took) + 1;
    wanted = (int)(seconds / (took * (double)each));
    if (wanted < FEWEST_BATCHES)
        wanted = FEWEST_BATCHES;
    if (wanted > MOST_BATCHES)
        wanted = MOST_BATCHES;
    memcpy(buffer, &(struct order){bandwidth, size, each * wanted}, sizeof(struct order));
    put(sizeof(struct order));
    get(1);
    for (batch = 0; batch < wanted; batch++) {
        long i;
        began = now();
        for (i = 0; i < each; i++)
            operation(bandwidth, (size_t)size, 1);
        samples[batch] = (now() - began) / (double)each;
    }
    qsort(samples, (size_t)wanted, sizeof *samples, ascending);
    took = samples[wanted / 10];
    printf("%s %ld %.3e %ld\n", bandwidth ? "bw" : "latency", size, bandwidth ? took : took / 2,
           bandwidth ? size * WINDOW : size);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sockaddr_in place = {.sin_family = AF_INET};
    const char *sizes = "8,1024,65536,1048576";
    double seconds = 30e-3;
    int i, one = 1, first;
    if (argc < 5) {
        fprintf(stderr, "usage: socket tcp|udp listen|connect ADDRESS PORT [--sizes A,B] [--core N] [--time MS]\n");
        return 2;
    }
    udp = !strcmp(argv[1], "udp");
    first = !strcmp(argv[2], "connect");
    for (i = 5; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--sizes"))
            sizes = argv[i + 1];
        else if (!strcmp(argv[i], "--time"))
            seconds = atof(argv[i + 1]) * 1e-3;
        else if (!strcmp(argv[i], "--core")) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(atoi(argv[i + 1]), &set);
            if (sched_setaffinity(0, sizeof set, &set))
                fail("core");
        }
    }
    buffer = calloc(WINDOW + 1, LARGEST);
    place.sin_port = htons((unsigned short)atoi(argv[4]));
    if (!buffer || !inet_aton(argv[3], &place.sin_addr))
        fail("address");
    fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one))
        fail("socket");
    if (first) {
        for (i = 0; connect(fd, (struct sockaddr *)&place, sizeof place); i++) {
            if (i == 100)
                fail("connect");
            usleep(50000);
        }
    } else if (udp) {
        socklen_t length = sizeof place;
        if (bind(fd, (struct sockaddr *)&place, sizeof place) ||
            recvfrom(fd, buffer, 1, MSG_PEEK, (struct sockaddr *)&place, &length) < 0 ||
            connect(fd, (struct sockaddr *)&place, length))
            fail("bind");
    } else {
        int listener = fd;
        if (bind(listener, (struct sockaddr *)&place, sizeof place) || listen(listener, 1) ||
            (fd = accept(listener, NULL, NULL)) < 0)
            fail("listen");
        close(listener);
    }
    if (!udp && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        fail("TCP_NODELAY");
    if (first) {
        char *list = strdup(sizes), *word;
        for (word = strtok(list, ","); word; word = strtok(NULL, ",")) {
            long size = atol(word);
            if (size < 1 || size > LARGEST || (udp && size > PACKET))
                continue;
            row(0, size, seconds);
            if (!udp)
                row(1, size, seconds);
        }
        free(list);
        if (udp) { /* The other side has no end of a connection to see. */
            memcpy(buffer, &(struct order){0, 0, -1}, sizeof(struct order));
            put(sizeof(struct order));
        }
        return 0;
    }
    for (;;) {
        struct order order;
        get(sizeof order);
        memcpy(&order, buffer, sizeof order);
        if (order.operations < 0)
            return 0;
        put(1);
        for (; order.operations > 0; order.operations--)
            operation((int)order.bandwidth, (size_t)order.size, 0);
    }
}
