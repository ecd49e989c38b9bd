/* A load generator for the rows that bench/load/loadgen.py is too slow or too simple for: one thread, epoll, frames built once.
 *
 * It declares nothing: the rows do (bench/rows/rates.py and others). bench/load/generator.py runs this program and reads the one
 * line of JSON that it prints. Three shapes of load:
 *
 *   plain   producers publish to --exchange with --key, consumers read --queue and acknowledge (or --reject, or --hold)
 *   paced   the same at --rate messages per second in all. A latency counts from when the message was due, not from when it
 *           was sent: a broker that stands still for a while cannot hide it by holding the generator up
 *   --rpc   producers are clients with an exclusive reply queue each and --window requests out; consumers are servers,
 *           which answer to reply_to, then acknowledge
 *
 * With more than one queue (--queues N) connection i uses NAME.(i mod N). Loopback addresses only. Bodies begin with the
 * sender's clock, from which the other end takes the latency of a delivery.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { METHOD = 1, HEADER = 2, BODY = 3, FRAME_END = 206, FRAME_MAX = 131072, CHUNK = 1 << 17 };
#define ID(class, method) ((uint32_t)(class) << 16 | (method))

/* What is asked for. */
static const char *host = "127.0.0.1", *pid = "", *label = "", *exchange = "", *key = "", *queue = "";
static int port = 5672, producers = 1, consumers = 1, queues = 1, size = 1024, window = 1000, prefetch = 500, keys, heartbeat;
static int confirm = 1, persistent = 1, no_ack, reject, hold, rpc, unique, cc, tickets, varied;
static double seconds = 5, warm = -1, rate;
static uint64_t count;

static void fail(const char *what) {
    fprintf(stderr, "load: %s%s%s\n", what, errno ? ": " : "", errno ? strerror(errno) : "");
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Bytes that grow at the end and are taken from the front. */
typedef struct {
    uint8_t *bytes;
    size_t from, to, room;
} Buffer;

static uint8_t *grow(Buffer *b, size_t more) {
    if (b->from == b->to) b->from = b->to = 0;
    if (b->to + more > b->room && b->from) {
        memmove(b->bytes, b->bytes + b->from, b->to - b->from);
        b->to -= b->from;
        b->from = 0;
    }
    if (b->to + more > b->room) {
        b->room = (b->to + more) * 2;
        b->bytes = realloc(b->bytes, b->room);
        if (!b->bytes) fail("no memory");
    }
    return b->bytes + b->to;
}

static void put(Buffer *b, const void *bytes, size_t n) {
    memcpy(grow(b, n), bytes, n);
    b->to += n;
}

static void number(Buffer *b, uint64_t value, int width) {
    uint8_t *at = grow(b, (size_t)width);
    for (int i = width; i-- > 0; value >>= 8) at[i] = (uint8_t)value;
    b->to += (size_t)width;
}

static void text(Buffer *b, const char *s) {
    number(b, strlen(s), 1);
    put(b, s, strlen(s));
}

static uint64_t get(const uint8_t *at, int width) {
    uint64_t value = 0;
    while (width--) value = value << 8 | *at++;
    return value;
}

/* A frame is begun, filled and ended; its size is written when it is known. */
static size_t size_at;

static void begin(Buffer *b, int kind, int channel) {
    number(b, (uint64_t)kind, 1);
    number(b, (uint64_t)channel, 2);
    number(b, 0, 4);
    size_at = b->to - b->from - 4;
}

static void end(Buffer *b) {
    uint8_t *at = b->bytes + b->from + size_at;
    uint64_t bytes = b->to - b->from - size_at - 4;
    for (int i = 4; i-- > 0; bytes >>= 8) at[i] = (uint8_t)bytes;
    number(b, FRAME_END, 1);
}

static void method(Buffer *b, int channel, uint32_t id) {
    begin(b, METHOD, channel);
    number(b, id, 4);
}

/* Latencies, in seconds. */
typedef struct {
    double *values;
    size_t n, room;
} Latencies;

static Latencies confirmed_after, delivered_after;
static int measuring;

static void note(Latencies *all, double value) {
    if (!measuring) return;
    if (all->n == all->room) {
        all->room = all->room ? all->room * 2 : 1 << 16;
        all->values = realloc(all->values, all->room * sizeof(double));
        if (!all->values) fail("no memory");
    }
    all->values[all->n++] = value;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(const Latencies *all, double part) {
    return all->n ? all->values[(size_t)((double)(all->n - 1) * part)] * 1e3 : 0;
}

/* One connection with channel 1. */
typedef struct {
    int fd, producer, number, writing;
    Buffer in, out, publish; /* publish: the frames of one message, with places to fill in */
    size_t clock_at, ticket_at, key_at, id_at, header_at, body_at;
    uint64_t sent, confirmed, tag;
    double *due;             /* when each unconfirmed publish was due, by number modulo ring */
    uint64_t body_left;
    int body_begins;
    char own_queue[256], reply_to[256], correlation[256];
} Link;

static Link **links;
static int link_count, poller;
static uint64_t ring, total_sent, total_confirmed, total_delivered, total_nacked, total_returned;

static void send_now(Link *link) {
    while (link->out.from < link->out.to) {
        ssize_t n = write(link->fd, link->out.bytes + link->out.from, link->out.to - link->out.from);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) fail("cannot send");
        link->out.from += (size_t)n;
    }
    int writing = link->out.from < link->out.to;
    if (writing == link->writing || !poller) return;
    link->writing = writing;
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = link};
    epoll_ctl(poller, EPOLL_CTL_MOD, link->fd, &event);
}

static size_t receive(Link *link) {
    ssize_t n = read(link->fd, grow(&link->in, CHUNK), CHUNK);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) fail("the broker closed a connection");
    link->in.to += (size_t)n;
    return (size_t)n;
}

static void refuse_close(uint32_t id, const uint8_t *at) {
    if (id != ID(10, 50) && id != ID(20, 40)) return;
    fprintf(stderr, "load: closed with %d %.*s\n", (int)get(at + 4, 2), at[6], at + 7);
    exit(1);
}

/* During set-up sockets block. The answer's arguments; they are good until the next call. */
static const uint8_t *answer(Link *link, uint32_t id) {
    send_now(link);
    for (;;) {
        while (link->in.to - link->in.from >= 8) {
            uint8_t *at = link->in.bytes + link->in.from;
            size_t bytes = get(at + 3, 4) + 8;
            if (link->in.to - link->in.from < bytes) break;
            link->in.from += bytes;
            if (*at != METHOD) continue;
            refuse_close((uint32_t)get(at + 7, 4), at + 7);
            if (get(at + 7, 4) == id) return at + 11;
        }
        receive(link);
    }
}

static void connect_to_broker(Link *link) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1 || ntohl(address.sin_addr.s_addr) >> 24 != 127) {
        errno = 0;
        fail("loopback addresses only");
    }
    link->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, sizeof address)) fail("cannot connect");
    int yes = 1;
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

static void shake_hands(Link *link) {
    Buffer *out = &link->out;
    put(out, "AMQP\0\0\x09\x01", 8);
    answer(link, ID(10, 10));
    method(out, 0, ID(10, 11));
    number(out, 0, 4); /* no client properties */
    text(out, "PLAIN");
    number(out, 12, 4);
    put(out, "\0guest\0guest", 12);
    text(out, "en_US");
    end(out);
    uint64_t channels = get(answer(link, ID(10, 30)), 2);
    method(out, 0, ID(10, 31));
    number(out, channels, 2);
    number(out, FRAME_MAX, 4);
    number(out, (uint64_t)heartbeat, 2);
    end(out);
    method(out, 0, ID(10, 40));
    text(out, "/");
    number(out, 0, 2);
    end(out);
    answer(link, ID(10, 41));
    method(out, 1, ID(20, 10));
    number(out, 0, 1);
    end(out);
    answer(link, ID(20, 11));
}

static void name_of(char *name, const char *of, int of_link) {
    if (queues > 1) snprintf(name, 256, "%s.%d", of, of_link % queues);
    else snprintf(name, 256, "%s", of);
}

static void declare_own_queue(Link *link) {
    method(&link->out, 1, ID(50, 10));
    number(&link->out, 0, 3); /* reserved, and a name of the broker's choice */
    number(&link->out, 4, 1); /* exclusive */
    number(&link->out, 0, 4);
    end(&link->out);
    const uint8_t *at = answer(link, ID(50, 11));
    snprintf(link->own_queue, sizeof link->own_queue, "%.*s", at[0], at + 1);
}

static void subscribe(Link *link, const char *name, int quietly) {
    method(&link->out, 1, ID(60, 10));
    number(&link->out, 0, 4);
    number(&link->out, (uint64_t)prefetch, 2);
    number(&link->out, 0, 1);
    end(&link->out);
    answer(link, ID(60, 11));
    method(&link->out, 1, ID(60, 20));
    number(&link->out, 0, 2);
    text(&link->out, name);
    text(&link->out, "c");
    number(&link->out, quietly ? 2 : 0, 1);
    number(&link->out, 0, 4);
    end(&link->out);
    answer(link, ID(60, 21));
}

/* The frames of one publish. What differs from message to message is written over later, at the places noted. */
static void build_publish(Link *link) {
    Buffer *b = &link->publish;
    char name[256], filled[300];
    name_of(name, rpc ? queue : key, keys ? 0 : link->number);
    snprintf(filled, sizeof filled, keys ? (unique ? "%s00000000.00000000" : "%s00000000") : "%s", keys ? key : name);
    method(b, 1, ID(60, 40));
    link->ticket_at = b->to;
    number(b, 0, 2);
    text(b, exchange);
    link->key_at = b->to + 1 + strlen(key);
    text(b, filled);
    number(b, 0, 1);
    end(b);
    link->header_at = b->to;
    begin(b, HEADER, 1);
    number(b, 60, 2);
    number(b, 0, 2);
    number(b, (uint64_t)size, 8);
    number(b, 0x1000 | (rpc ? 0x0600 : 0) | (cc ? 0x2000 : 0), 2);
    if (cc) { /* CC: ["nowhere"] */
        number(b, 20, 4);
        text(b, "CC");
        number(b, 'A', 1);
        number(b, 12, 4);
        number(b, 'S', 1);
        number(b, 7, 4);
        put(b, "nowhere", 7);
    }
    number(b, persistent ? 2 : 1, 1);
    if (rpc) {
        link->id_at = b->to + 1;
        text(b, "0000000000000000");
        text(b, link->own_queue);
    }
    end(b);
    link->body_at = b->to;
    for (int left = size; left > 0; left -= FRAME_MAX - 8) {
        int part = left < FRAME_MAX - 8 ? left : FRAME_MAX - 8;
        begin(b, BODY, 1);
        if (left == size) link->clock_at = b->to;
        memset(grow(b, (size_t)part), 'x', (size_t)part);
        b->to += (size_t)part;
        end(b);
    }
}

static void digits(uint8_t *at, uint64_t value, int width) {
    for (; width--; value /= 10) at[width] = (uint8_t)('0' + value % 10);
}

static uint64_t drawn(uint64_t below) { /* xorshift: the same numbers in every run */
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void drawn_text(Buffer *b, const char *format, uint64_t below) {
    char filled[64];
    snprintf(filled, sizeof filled, format, (unsigned long long)drawn(below));
    text(b, filled);
}

/* Eight headers in an order of their own, of four types. */
static void put_headers(Buffer *b) {
    static const char *names[8] = {"tenant", "trace", "attempt", "source", "created", "region", "final", "schema"};
    size_t table_at = b->to - b->from;
    number(b, 0, 4);
    uint64_t first = drawn(8), step = 1 + 2 * drawn(4); /* odd, so each comes once */
    for (uint64_t i = 0; i < 8; i++) {
        uint64_t which = (first + i * step) % 8;
        text(b, names[which]);
        switch (which % 4) {
        case 0: number(b, 'S', 1), number(b, 0, 3), drawn_text(b, "%016llx", UINT64_MAX); break;
        case 1: number(b, 'l', 1), number(b, drawn(1 << 30), 8); break;
        case 2: number(b, 'I', 1), number(b, drawn(1 << 20), 4); break;
        default: number(b, 't', 1), number(b, drawn(2), 1);
        }
    }
    uint8_t *at = b->bytes + b->from + table_at;
    uint64_t bytes = b->to - b->from - table_at - 4;
    for (int i = 4; i-- > 0; bytes >>= 8) at[i] = (uint8_t)bytes;
}

/* A header that no other message has: properties present or not, ids, a timestamp and an expiration at random. */
static void put_varied_header(Buffer *b) {
    int correlated = (int)drawn(2), typed = (int)drawn(2);
    begin(b, HEADER, 1);
    size_t frame_size_at = size_at;
    number(b, 60, 2);
    number(b, 0, 2);
    number(b, (uint64_t)size, 8);
    number(b, 0xB1C0 | (correlated ? 0x0400 : 0) | (typed ? 0x0020 : 0), 2);
    text(b, "application/json");
    put_headers(b);
    number(b, persistent ? 2 : 1, 1);
    if (correlated) drawn_text(b, "%020llu", UINT64_MAX);
    drawn_text(b, "%llu", 3600000);
    drawn_text(b, "%016llx", UINT64_MAX);
    number(b, 1700000000 + drawn(100000000), 8);
    if (typed) drawn_text(b, "type.%llu", 100);
    size_at = frame_size_at;
    end(b);
}

static void publish(Link *link, double due) {
    uint8_t *frames = link->publish.bytes;
    if (size >= 8) memcpy(frames + link->clock_at, &due, 8);
    if (keys) digits(frames + link->key_at, varied ? drawn((uint64_t)keys) : total_sent % (uint64_t)keys, 8);
    if (keys && unique) digits(frames + link->key_at + 9, total_sent, 8);
    if (tickets) { /* a field without meaning: the arguments' bytes differ, the key does not */
        uint64_t ticket = total_sent / (uint64_t)keys;
        frames[link->ticket_at] = (uint8_t)(ticket >> 8);
        frames[link->ticket_at + 1] = (uint8_t)ticket;
    }
    if (rpc) digits(frames + link->id_at, link->sent, 16);
    if (varied) {
        put(&link->out, frames, link->header_at);
        put_varied_header(&link->out);
        put(&link->out, frames + link->body_at, link->publish.to - link->body_at);
    } else {
        put(&link->out, frames, link->publish.to);
    }
    link->sent++;
    total_sent++;
    if (confirm) link->due[link->sent % ring] = due;
}

static int may_publish(const Link *link) {
    return !(count && total_sent >= count) && link->sent - link->confirmed < (uint64_t)window &&
           link->out.to - link->out.from < CHUNK;
}

static void fill(Link *link) {
    if (!link->producer || rate > 0) return;
    double t = now();
    while (may_publish(link)) publish(link, t);
}

static void settle(Link *link) {
    if (no_ack || hold) return;
    method(&link->out, 1, reject ? ID(60, 90) : ID(60, 80));
    number(&link->out, link->tag, 8);
    number(&link->out, 0, 1);
    end(&link->out);
}

static void reply(Link *link, const uint8_t *body, size_t n) {
    Buffer *out = &link->out;
    method(out, 1, ID(60, 40));
    number(out, 0, 3);
    text(out, link->reply_to);
    number(out, 0, 1);
    end(out);
    begin(out, HEADER, 1);
    number(out, 60, 2);
    number(out, 0, 2);
    number(out, n, 8);
    number(out, 0x1400, 2);
    number(out, 1, 1);
    text(out, link->correlation);
    end(out);
    begin(out, BODY, 1);
    put(out, body, n);
    end(out);
}

static void delivered(Link *link) {
    if (!rpc || link->producer) total_delivered++;
    if (rpc && link->producer) link->confirmed++; /* an answer makes room for a request */
    else settle(link);
}

static void take_confirm(Link *link, const uint8_t *at, int positive, double t) {
    uint64_t tag = get(at, 8), from = at[8] & 1 ? link->confirmed + 1 : tag, n = 0;
    for (uint64_t i = from; i <= tag; i++, n++) note(&confirmed_after, t - link->due[i % ring]);
    link->confirmed += n;
    total_confirmed += n;
    if (!positive) total_nacked += n;
}

static void take_method(Link *link, const uint8_t *at, double t) {
    uint32_t id = (uint32_t)get(at, 4);
    if (id == ID(60, 80) || id == ID(60, 120)) take_confirm(link, at + 4, id == ID(60, 80), t);
    else if (id == ID(60, 60)) link->tag = get(at + 5 + at[4], 8);
    else if (id == ID(60, 50)) total_returned++;
    else refuse_close(id, at);
}

/* Of a request: who asks, and for what. The properties are those that build_publish wrote. */
static void take_request(Link *link, const uint8_t *at) {
    at += 15; /* class, weight, size, flags, delivery mode */
    snprintf(link->correlation, sizeof link->correlation, "%.*s", at[0], at + 1);
    at += 1 + at[0];
    snprintf(link->reply_to, sizeof link->reply_to, "%.*s", at[0], at + 1);
}

static void take_header(Link *link, const uint8_t *at) {
    link->body_left = get(at + 4, 8);
    link->body_begins = 1;
    if (rpc && !link->producer) take_request(link, at);
    if (!link->body_left) delivered(link);
}

static void take_body(Link *link, const uint8_t *at, size_t n, double t) {
    double due;
    if (link->body_begins && n >= 8) {
        memcpy(&due, at, 8);
        if (!rpc || link->producer) note(&delivered_after, t - due);
        if (rpc && !link->producer) reply(link, at, n);
    }
    link->body_begins = 0;
    link->body_left -= n;
    if (!link->body_left) delivered(link);
}

static void take_frames(Link *link, double t) {
    while (link->in.to - link->in.from >= 8) {
        uint8_t *at = link->in.bytes + link->in.from;
        size_t n = get(at + 3, 4);
        if (link->in.to - link->in.from < n + 8) break;
        if (at[7 + n] != FRAME_END) errno = 0, fail("a frame does not end where it should");
        link->in.from += n + 8;
        if (*at == METHOD) take_method(link, at + 7, t);
        else if (*at == HEADER) take_header(link, at + 7);
        else if (*at == BODY) take_body(link, at + 7, n, t);
    }
}

static Link *join(int producer, int number_of_link) {
    Link *link = calloc(1, sizeof *link);
    link->producer = producer;
    link->number = number_of_link;
    connect_to_broker(link);
    shake_hands(link);
    if (rpc && producer) {
        declare_own_queue(link);
        subscribe(link, link->own_queue, 1);
    }
    if (!producer) {
        char name[256];
        name_of(name, queue, number_of_link);
        subscribe(link, name, no_ack);
    } else if (confirm) {
        method(&link->out, 1, ID(85, 10));
        number(&link->out, 0, 1);
        end(&link->out);
        answer(link, ID(85, 11));
        link->due = calloc(ring, sizeof(double));
    }
    if (producer) build_publish(link);
    return links[link_count++] = link;
}

static void watch_all(void) {
    poller = epoll_create1(0);
    for (int i = 0; i < link_count; i++) {
        fcntl(links[i]->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = links[i]};
        epoll_ctl(poller, EPOLL_CTL_ADD, links[i]->fd, &event);
        take_frames(links[i], now());
        send_now(links[i]);
    }
}

/* Paced: what is due by now, round and round the producers. */
static void publish_due(double started, double t) {
    static int turn;
    while ((double)total_sent < rate * (t - started)) {
        int tried = 0;
        while (tried < producers && !may_publish(links[consumers + turn % producers])) turn++, tried++;
        if (tried == producers) return;
        Link *link = links[consumers + turn++ % producers];
        publish(link, started + (double)total_sent / rate);
        send_now(link);
    }
}

/* As long as the window is open and the socket takes it: nobody says later that there is room again. */
static void publish_and_send(Link *link) {
    do {
        fill(link);
        send_now(link);
    } while (link->producer && rate <= 0 && link->out.from == link->out.to && may_publish(link));
}

static void wait_for_events(double until) {
    double left = until - now();
    if (left < 0) left = 0;
    if (left > 0.05) left = 0.05;
    struct timespec pause = {.tv_sec = 0, .tv_nsec = (long)(left * 1e9)};
    struct pollfd poll = {.fd = poller, .events = POLLIN};
    ppoll(&poll, 1, &pause, NULL);
    struct epoll_event events[256];
    int n = epoll_wait(poller, events, 256, 0);
    for (int i = 0; i < n; i++) {
        Link *link = events[i].data.ptr;
        if (events[i].events & (EPOLLIN | EPOLLHUP)) {
            for (int reads = 0; reads < 8 && receive(link) == CHUNK; reads++) take_frames(link, now());
            take_frames(link, now());
        }
        publish_and_send(link);
    }
}

/* User and system time of the broker's processes so far, in seconds. */
static double broker_cpu(void) {
    double total = 0;
    char list[256], path[64], line[1024];
    snprintf(list, sizeof list, "%s", pid);
    for (char *one = strtok(list, ","); one; one = strtok(NULL, ",")) {
        snprintf(path, sizeof path, "/proc/%s/stat", one);
        FILE *file = fopen(path, "r");
        if (!file) fail(path);
        line[fread(line, 1, sizeof line - 1, file)] = 0;
        fclose(file);
        long long user, system;
        sscanf(strrchr(line, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &system);
        total += (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    }
    return total;
}

static double own_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct {
    double at, broker, own;
    uint64_t sent, confirmed, delivered;
} Moment;

static Moment moment(void) {
    return (Moment){now(), broker_cpu(), own_cpu(), total_sent, total_confirmed, total_delivered};
}

/* With --count: what has been done of it, and when each tenth was. */
static double tenths[11];
static int tenth;

static uint64_t progress(void) {
    if (!producers) return total_delivered;
    uint64_t least = confirm ? total_confirmed : total_sent;
    return consumers && total_delivered < least ? total_delivered : least;
}

static void note_tenths(double t) {
    while (tenth < 10 && progress() >= count / 10 * (uint64_t)(tenth + 1)) tenths[++tenth] = t;
}

/* A measurement by time goes on until something is done in it: on a busy machine a short one may see nothing. */
static int over(double measured, uint64_t before) {
    if (count) return progress() >= count;
    return measured >= seconds && (progress() > before || measured >= seconds + 10);
}

static Moment run(void) {
    for (int i = 0; i < link_count; i++) {
        publish_and_send(links[i]);
    }
    double started = now(), moved = started;
    uint64_t last = 0, before = 0;
    Moment first = moment();
    measuring = count > 0;
    tenths[0] = started;
    for (;;) {
        double t = now();
        if (!measuring && t - started >= warm) {
            measuring = 1;
            before = progress();
            first = moment();
        }
        if (count) note_tenths(t);
        if (measuring && over(t - started - warm, before)) return first;
        if (progress() != last) last = progress(), moved = t;
        if (t - moved > 60) errno = 0, fail("nothing has moved for a minute");
        if (rate > 0) publish_due(started, t);
        double due = started + (double)total_sent / rate;
        wait_for_events(rate > 0 ? (due > t ? due : t + 0.001) : t + 1);
    }
}

static void print_latencies(const char *name, Latencies *all) {
    if (all->n) qsort(all->values, all->n, sizeof(double), ascending);
    printf(", \"%s_ms\": {\"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}", name, percentile(all, .5), percentile(all, .99),
           percentile(all, 1));
}

static void print(Moment a, Moment b) {
    double span = b.at - a.at, sent = (double)(b.sent - a.sent), got = (double)(b.delivered - a.delivered);
    double handled = rpc ? got * 2 : sent > got ? sent : got;
    printf("{\"label\": \"%s\", \"seconds\": %.2f, \"published_per_s\": %.0f, \"confirmed_per_s\": %.0f, "
           "\"delivered_per_s\": %.0f, \"nacked\": %llu, \"returned\": %llu",
           label, span, sent / span, (double)(b.confirmed - a.confirmed) / span, got / span,
           (unsigned long long)total_nacked, (unsigned long long)total_returned);
    print_latencies("confirm", &confirmed_after);
    print_latencies(rpc ? "round_trip" : "delivery", &delivered_after);
    if (tenth == 10)
        printf(", \"first_tenth_per_s\": %.0f, \"last_tenth_per_s\": %.0f",
               (double)count / 10 / (tenths[1] - tenths[0] + 1e-6), (double)count / 10 / (tenths[10] - tenths[9] + 1e-6));
    printf(", \"cpu_us_per_message\": %.2f, \"broker_cores\": %.2f, \"generator_cores\": %.2f}\n",
           handled > 0 ? (b.broker - a.broker) / handled * 1e6 : 0, (b.broker - a.broker) / span, (b.own - a.own) / span);
    fflush(stdout);
}

typedef struct {
    const char *name;
    const char **text;
    int *number, *flag;
    double *real;
    int value;
} Option;

static const Option options[] = {
    {"--host", .text = &host}, {"--pid", .text = &pid}, {"--label", .text = &label}, {"--exchange", .text = &exchange},
    {"--key", .text = &key}, {"--queue", .text = &queue}, {"--port", .number = &port}, {"--producers", .number = &producers},
    {"--consumers", .number = &consumers}, {"--queues", .number = &queues}, {"--size", .number = &size},
    {"--window", .number = &window}, {"--prefetch", .number = &prefetch}, {"--keys", .number = &keys},
    {"--seconds", .real = &seconds}, {"--warm", .real = &warm}, {"--rate", .real = &rate},
    {"--no-confirm", .flag = &confirm, .value = 0}, {"--transient", .flag = &persistent, .value = 0},
    {"--no-ack", .flag = &no_ack, .value = 1}, {"--reject", .flag = &reject, .value = 1}, {"--hold", .flag = &hold, .value = 1},
    {"--rpc", .flag = &rpc, .value = 1}, {"--unique", .flag = &unique, .value = 1}, {"--cc", .flag = &cc, .value = 1},
    {"--tickets", .flag = &tickets, .value = 1}, {"--varied", .flag = &varied, .value = 1},
};

static void read_options(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const Option *option = NULL;
        for (size_t k = 0; k < sizeof options / sizeof *options; k++)
            if (!strcmp(argv[i], options[k].name)) option = options + k;
        int is_count = !strcmp(argv[i], "--count");
        errno = 0;
        if (!option && !is_count) fail(argv[i]);
        if (option && option->flag) {
            *option->flag = option->value;
            continue;
        }
        if (++i == argc) fail("an option lacks its value");
        if (is_count) count = (uint64_t)atoll(argv[i]);
        else if (option->text) *option->text = argv[i];
        else if (option->number) *option->number = atoi(argv[i]);
        else *option->real = atof(argv[i]);
    }
}

int main(int argc, char **argv) {
    read_options(argc, argv);
    if (warm < 0) warm = seconds < 1 ? seconds : 1;
    if (rpc) confirm = 0;
    if (!confirm && !rpc) window = 1 << 30;
    ring = (uint64_t)window + 1;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    links = calloc((size_t)(producers + consumers) + 1, sizeof *links);
    for (int i = 0; i < consumers; i++) join(0, i);
    for (int i = 0; i < producers; i++) join(1, i);
    watch_all();
    Moment first = run();
    print(first, moment());
    return 0;
}
