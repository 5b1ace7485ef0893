/* What libfabric takes, without MPI: the rows `latency` and `bw` of compare.c over one reliable endpoint (FI_EP_RDM), beside socket.c.
 *
 * Usage: libfabric msg|tagged|read listen|connect ADDRESS PORT [--provider NAME] [--sizes A,B,...] [--core N] [--time MS]
 *   msg     fi_send into receives that are posted
 *   tagged  fi_tsend into receives that are posted: what messages with tags can take at least, since nobody matches anything
 *   read    16 bytes tell of every message, and the receiver reads it with fi_read: the handshake of long messages
 * The side that listens is started first and answers; the one that connects measures and prints, as socket.c. The addresses of the endpoints are
 * exchanged over a socket. Both look without waiting. With another library: LD_LIBRARY_PATH. Without a provider: tcp, or what stands in
 * for it in an older library.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_BATCHES = 20000, FEWEST_BATCHES = 12, WINDOW = 64, LARGEST = 4 << 20, WORDS = 64, NOTICE = 16 };
enum way { MSG, TAGGED, READ };

static double samples[MOST_BATCHES];
static enum way way;
static char *memory; /* what is sent, what is received, words */
static char *out, *in, *words_out, *words_in;
static void *descriptor;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *addresses;
static struct fid_cq *completions;
static struct fid_ep *endpoint;
static struct fid_mr *region;
static fi_addr_t peer;
static uint64_t peer_memory, peer_key;
static long sending, receiving, reading; /* not at their ends */
/* One for each operation that may be under way; some providers write there. */
static struct fi_context2 contexts[4 * WINDOW];
static unsigned next_context;

static void fail(const char *what, long result)
{
    fprintf(stderr, "libfabric: %s: %s\n", what, result < 0 ? fi_strerror((int)-result) : "failed");
    exit(1);
}

static void try(const char *what, long result)
{
    if (result)
        fail(what, result);
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

static void look(void)
{
    struct fi_cq_msg_entry done[32];
    long i, count = fi_cq_read(completions, done, 32);
    if (count == -FI_EAGAIN)
        return;
    if (count < 0) {
        struct fi_cq_err_entry error = {0};
        fi_cq_readerr(completions, &error, 0);
        /* Whoever is told to go finds the other one gone, which ends this. */
        fail("an operation", -(long)error.err);
    }
    for (i = 0; i < count; i++) {
        if (done[i].flags & FI_READ)
            reading--;
        else if (done[i].flags & FI_RECV)
            receiving--;
        else
            sending--;
    }
}

static void *context(void)
{
    return &contexts[next_context++ % (4 * WINDOW)];
}

/* Repeats a call until the provider takes it. */
#define UNTIL_TAKEN(call)                                       \
    do {                                                        \
        long result_;                                           \
        while ((result_ = (long)(call)) == -FI_EAGAIN) look();  \
        try(#call, result_);                                    \
    } while (0)

static void send_bytes(const void *from, size_t size)
{
    if (size <= info->tx_attr->inject_size) {
        if (way == TAGGED)
            UNTIL_TAKEN(fi_tinject(endpoint, from, size, peer, 1));
        else
            UNTIL_TAKEN(fi_inject(endpoint, from, size, peer));
        return;
    }
    sending++;
    if (way == TAGGED)
        UNTIL_TAKEN(fi_tsend(endpoint, from, size, descriptor, peer, 1, context()));
    else
        UNTIL_TAKEN(fi_send(endpoint, from, size, descriptor, peer, context()));
}

static void post(void *into, size_t size)
{
    receiving++;
    if (way == TAGGED)
        UNTIL_TAKEN(fi_trecv(endpoint, into, size, descriptor, peer, 1, 0, context()));
    else
        UNTIL_TAKEN(fi_recv(endpoint, into, size, descriptor, FI_ADDR_UNSPEC, context()));
}

static void read_bytes(size_t size)
{
    reading++;
    UNTIL_TAKEN(fi_read(endpoint, in, size, descriptor, peer, peer_memory, peer_key, context()));
}

/* Everything that is posted is expected; `posted` of it stays for later. */
static void get(long posted)
{
    while (receiving > posted) look();
}

/* A message of a row leaves, or is told of. */
static void put(size_t size)
{
    if (way == READ)
        send_bytes(words_out, NOTICE);
    else
        send_bytes(out, size);
}

static void post_one(size_t size)
{
    if (way == READ)
        post(words_in, NOTICE);
    else
        post(in, size);
}

/* A message of a row has come, and what comes next has room. */
static void take(size_t size, int again)
{
    get(0);
    if (again)
        post_one(size);
    if (way == READ) {
        read_bytes(size);
        while (reading > 0) look();
    }
}

static void window_of(size_t size)
{
    long i, told = 0;
    if (way != READ) {
        get(0);
        return;
    }
    while (told < WINDOW) {
        long have = WINDOW - receiving;
        if (have == told)
            look();
        for (i = told; i < have; i++) read_bytes(size);
        told = have;
    }
    while (reading > 0) look();
}

/* All operations of a row. What the first one needs is posted before anything is sent. */
static void operations(int bandwidth, size_t size, long count, int first, double *into, long each)
{
    long i, k;
    double began = now();
    for (i = 0; i < count; i++) {
        int again = i + 1 < count;
        if (!bandwidth) {
            if (first) {
                put(size);
                take(size, again);
            } else {
                take(size, again);
                put(size);
            }
        } else if (first) {
            for (k = 0; k < WINDOW; k++) put(size);
            get(0);
            if (again)
                post(words_in, 1);
        } else {
            window_of(size);
            if (again)
                for (k = 0; k < WINDOW; k++) post_one(size);
            send_bytes(words_out, 1);
        }
        if (into && (i + 1) % each == 0) {
            double end = now();
            into[i / each] = (end - began) / (double)each;
            began = end;
        }
    }
    while (sending > 0) look();
}

/* What the measuring side wants next; it travels over the socket. */
struct order {
    long bandwidth, size, operations;
};

static int talk;

static void say(const void *mine, size_t size)
{
    if (send(talk, mine, size, MSG_NOSIGNAL) != (ssize_t)size)
        exit(0);
}

static void hear(void *theirs, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = recv(talk, (char *)theirs + done, size - done, MSG_DONTWAIT);
        if (count == 0)
            exit(0);
        if (count > 0)
            done += (size_t)count;
        else
            look(); /* The other one may need this one's help to get something away. */
    }
}

static void series(struct order order, int first, double *into, long each)
{
    char ready = 0;
    long i;
    if (first)
        say(&order, sizeof order);
    else
        hear(&order, sizeof order);
    if (order.bandwidth && first)
        post(words_in, 1);
    else
        for (i = 0; i < (order.bandwidth ? WINDOW : 1); i++) post_one((size_t)order.size);
    if (first)
        hear(&ready, 1);
    else
        say(&ready, 1);
    operations((int)order.bandwidth, (size_t)order.size, order.operations, first, into, each);
}

static void row(int bandwidth, long size, double seconds)
{
    int wanted;
    long each;
    double began = now(), took;
    series((struct order){bandwidth, size, 20}, 1, NULL, 1);
    took = (now() - began) / 20;
    each = (long)(40e-6 / took) + 1;
    wanted = (int)(seconds / (took * (double)each));
    if (wanted < FEWEST_BATCHES)
        wanted = FEWEST_BATCHES;
    if (wanted > MOST_BATCHES)
        wanted = MOST_BATCHES;
    series((struct order){bandwidth, size, each * wanted}, 1, samples, each);
    qsort(samples, (size_t)wanted, sizeof *samples, ascending);
    took = samples[wanted / 10];
    printf("%s %ld %.3e %ld\n", bandwidth ? "bw" : "latency", size, bandwidth ? took : took / 2, bandwidth ? size * WINDOW : size);
    fflush(stdout);
}

static void open_endpoint(const char *address, const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 2};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE, .size = 1024};
    uint64_t rights = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = (way == TAGGED ? FI_TAGGED : FI_MSG) | (way == READ ? FI_RMA : 0);
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->fabric_attr->prov_name = strdup(provider ? provider : "tcp");
    if (fi_getinfo(FI_VERSION(1, 9), address, NULL, FI_SOURCE, hints, &info) && !provider) {
        /* Before 2.x sockets have no reliable endpoint of their own. */
        free(hints->fabric_attr->prov_name);
        hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    }
    if (!info)
        try("fi_getinfo", fi_getinfo(FI_VERSION(1, 9), address, NULL, FI_SOURCE, hints, &info));
    try("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
    try("fi_domain", fi_domain(fabric, info, &domain, NULL));
    try("fi_av_open", fi_av_open(domain, &av, &addresses, NULL));
    try("fi_cq_open", fi_cq_open(domain, &cq, &completions, NULL));
    try("fi_endpoint", fi_endpoint(domain, info, &endpoint, NULL));
    try("fi_ep_bind", fi_ep_bind(endpoint, &addresses->fid, 0));
    try("fi_ep_bind", fi_ep_bind(endpoint, &completions->fid, FI_TRANSMIT | FI_RECV));
    try("fi_enable", fi_enable(endpoint));
    try("fi_mr_reg", fi_mr_reg(domain, memory, 2 * LARGEST + 2 * WORDS, rights, 0, 1, 0, &region, NULL));
    if (info->domain_attr->mr_mode & FI_MR_LOCAL)
        descriptor = fi_mr_desc(region);
    fi_freeinfo(hints);
}

static void meet(void)
{
    struct card {
        char name[64];
        uint64_t memory, key;
    } mine = {.key = fi_mr_key(region)}, theirs;
    size_t length = sizeof mine.name;
    mine.memory = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)out : 0;
    try("fi_getname", fi_getname(&endpoint->fid, mine.name, &length));
    say(&mine, sizeof mine);
    hear(&theirs, sizeof theirs);
    if (fi_av_insert(addresses, theirs.name, 1, &peer, 0, NULL) != 1)
        fail("fi_av_insert", 1);
    peer_memory = theirs.memory;
    peer_key = theirs.key;
}

int main(int argc, char **argv)
{
    struct sockaddr_in place = {.sin_family = AF_INET}, own;
    socklen_t length = sizeof own;
    const char *sizes = "8,1024,65536,1048576", *provider = NULL;
    char text[INET_ADDRSTRLEN];
    double seconds = 30e-3;
    int i, one = 1, first, turn;
    if (argc < 5) {
        fprintf(stderr, "usage: libfabric msg|tagged|read listen|connect ADDRESS PORT [--provider NAME] [--sizes A,B] [--core N] [--time MS]\n");
        return 2;
    }
    way = !strcmp(argv[1], "read") ? READ : !strcmp(argv[1], "tagged") ? TAGGED : MSG;
    first = !strcmp(argv[2], "connect");
    for (i = 5; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--sizes"))
            sizes = argv[i + 1];
        else if (!strcmp(argv[i], "--provider"))
            provider = argv[i + 1];
        else if (!strcmp(argv[i], "--time"))
            seconds = atof(argv[i + 1]) * 1e-3;
        else if (!strcmp(argv[i], "--core")) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(atoi(argv[i + 1]), &set);
            if (sched_setaffinity(0, sizeof set, &set))
                fail("core", 1);
        }
    }
    memory = aligned_alloc(4096, 2 * LARGEST + 4096);
    if (!memory)
        fail("memory", 1);
    memset(memory, 1, 2 * LARGEST + 4096);
    out = memory;
    in = memory + LARGEST;
    words_out = in + LARGEST;
    words_in = words_out + WORDS;
    place.sin_port = htons((unsigned short)atoi(argv[4]));
    inet_pton(AF_INET, argv[3], &place.sin_addr);
    talk = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(talk, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (first) {
        if (connect(talk, (struct sockaddr *)&place, sizeof place))
            fail("connect", 1);
    } else {
        int listener = talk;
        if (bind(listener, (struct sockaddr *)&place, sizeof place) || listen(listener, 1))
            fail("listen", 1);
        talk = accept(listener, NULL, NULL);
    }
    getsockname(talk, (struct sockaddr *)&own, &length);
    inet_ntop(AF_INET, &own.sin_addr, text, sizeof text);
    open_endpoint(text, provider);
    meet();
    if (!first)
        for (;;) series((struct order){0, 0, 0}, 0, NULL, 1);
    for (turn = 0; turn < 2; turn++) {
        const char *at = sizes;
        while (*at) {
            char *end;
            long size = strtol(at, &end, 10);
            if (size < 1 || size > LARGEST)
                fail("sizes", 1);
            row(turn, size, seconds);
            at = *end ? end + 1 : end;
        }
    }
    return 0;
}
