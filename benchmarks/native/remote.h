/* The client's end of a chain at an address: lines on a socket (`unix:PATH`, `tcp://HOST:PORT`), a
 * WebSocket (`ws://`), or HTTP with streams of events (`http://`). What comes is put into a reader
 * as lines, so that the rest of the client knows pipes alone.
 *
 * Plain and strict: what a server of ACP does not send ends in an error. */
#ifndef BENCH_REMOTE_H
#define BENCH_REMOTE_H

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "io.h"

enum way { PIPES, LINES, WEBSOCKET, HTTP };
enum { MOST_STREAMS = 300 };

/* The answer to one GET: its head is read; chunks are decoded into lines. */
struct stream {
    int fd;
    struct reader raw, lines;
    long left; /* bytes of the chunk that are to come; 0: a size is */
};

struct remote {
    enum way way;
    char host[256], port[16], path[256], connection[128];
    int fd; /* the one connection; for HTTP, that of the POSTs */
    struct reader raw;
    struct writer wire; /* what is to be sent, as it is sent */
    struct stream streams[MOST_STREAMS];
    int open;
};

static inline enum way way_of(const char *address) {
    if (strncmp(address, "unix:", 5) == 0 || strncmp(address, "tcp://", 6) == 0) return LINES;
    if (strncmp(address, "ws://", 5) == 0) return WEBSOCKET;
    return strncmp(address, "http://", 7) == 0 ? HTTP : PIPES;
}

static inline void give_up(const char *what) {
    fprintf(stderr, "client: %s\n", what);
    exit(3);
}

static inline void append(struct reader *r, const char *p, size_t n) {
    if (r->start == r->end) r->start = r->end = r->seen = 0;
    if (r->cap - r->end < n) {
        while (r->cap - r->end < n) r->cap = r->cap == 0 ? READ_ROOM : r->cap * 2;
        r->buf = must_realloc(r->buf, r->cap);
    }
    memcpy(r->buf + r->end, p, n);
    r->end += n;
}

static inline int dial_unix(const char *path) {
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof place.sun_path) give_up("the path of the socket is too long");
    strcpy(place.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&place, sizeof place) < 0)
        give_up("cannot connect");
    return fd;
}

static inline int dial(const struct remote *r) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    if (getaddrinfo(r->host, r->port, &hints, &found) != 0) give_up("no such host");
    int fd = socket(found->ai_family, SOCK_STREAM, 0), on = 1;
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen) < 0) give_up("cannot connect");
    freeaddrinfo(found);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static inline void send_all(int fd, struct writer *out) {
    out->fd = fd;
    writer_flush(out);
}

/* Reads the head of an answer and leaves what follows in the reader; its end is a NUL. */
static inline char *read_head(int fd, struct reader *raw) {
    raw->fd = fd;
    for (;;) {
        for (size_t at = raw->start; at + 4 <= raw->end; at++) {
            if (memcmp(raw->buf + at, "\r\n\r\n", 4) != 0) continue;
            char *head = raw->buf + raw->start;
            raw->buf[at] = '\0';
            raw->start = raw->seen = at + 4;
            return head;
        }
        if (reader_fill(raw) <= 0) give_up("the server closed while it was to answer");
    }
}

/* A header's value by its name in lower case, with the colon; false when there is none. */
static inline bool header(char *head, const char *name, char *value, size_t room) {
    for (char *line = strchr(head, '\n'); line != NULL; line = strchr(line, '\n')) {
        line++;
        size_t n = 0;
        while (name[n] != '\0' && (line[n] | 0x20) == (name[n] | 0x20)) n++;
        if (name[n] != '\0') continue;
        while (line[n] == ' ') n++;
        size_t length = strcspn(line + n, "\r\n");
        if (length >= room) give_up("a header is too long");
        memcpy(value, line + n, length);
        value[length] = '\0';
        return true;
    }
    return false;
}

static inline void put_request(struct remote *r, const char *method) {
    const char *token = getenv("BENCH_TOKEN");
    char head[1024];
    snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: %s:%s\r\n", method, r->path, r->host,
             r->port);
    put_text(&r->wire, head);
    if (token != NULL) {
        snprintf(head, sizeof head, "Authorization: Bearer %s\r\n", token);
        put_text(&r->wire, head);
    }
    if (r->connection[0] != '\0') {
        snprintf(head, sizeof head, "Acp-Connection-Id: %s\r\n", r->connection);
        put_text(&r->wire, head);
    }
}

/* The session's id comes as JSON: it is written without its quotes. */
static inline void put_session(struct writer *w, span session) {
    if (session.p == NULL || session.n < 2) return;
    put_text(w, "Acp-Session-Id: ");
    put(w, session.p + 1, session.n - 2);
    put_text(w, "\r\n");
}

static inline void put_post(struct remote *r, span line) {
    struct message m;
    char head[64];
    put_request(r, "POST");
    put_text(&r->wire, "Content-Type: application/json\r\n"
                       "Accept: application/json, text/event-stream\r\n");
    if (json_message(line, &m) && m.params.p != NULL)
        put_session(&r->wire, json_member(m.params, "sessionId"));
    snprintf(head, sizeof head, "Content-Length: %zu\r\n\r\n", line.n);
    put_text(&r->wire, head);
    put_span(&r->wire, line);
}

/* A stream of events: of a session, or with none of the connection. */
static inline void listen_to(struct remote *r, span session) {
    if (r->open == MOST_STREAMS) give_up("too many sessions");
    struct stream *s = &r->streams[r->open++];
    put_request(r, "GET");
    put_session(&r->wire, session);
    put_text(&r->wire, "Accept: text/event-stream\r\n\r\n");
    s->fd = dial(r);
    send_all(s->fd, &r->wire);
    char *head = read_head(s->fd, &s->raw), value[64];
    if (strncmp(head, "HTTP/1.1 200", 12) != 0) give_up(head);
    if (!header(head, "transfer-encoding:", value, sizeof value)) give_up("a stream has no chunks");
    fcntl(s->fd, F_SETFL, O_NONBLOCK);
}

static inline void remote_open(struct remote *r, const char *address) {
    r->way = way_of(address);
    if (strncmp(address, "unix:", 5) == 0) {
        r->fd = dial_unix(address + 5);
        return;
    }
    strcpy(r->path, "/acp");
    if (sscanf(strstr(address, "://") + 3, "%255[^:]:%15[0-9]%255s", r->host, r->port, r->path) < 2)
        give_up("an address is SCHEME://HOST:PORT");
    r->fd = dial(r);
    if (r->way != WEBSOCKET) return;
    put_request(r, "GET");
    put_text(&r->wire, "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                       "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
    send_all(r->fd, &r->wire);
    char *head = read_head(r->fd, &r->raw);
    if (strncmp(head, "HTTP/1.1 101", 12) != 0) give_up(head);
}

/* `initialize` over HTTP: its answer is the answer of the request. */
static inline void http_initialize(struct remote *r, span line, struct reader *in) {
    char length[32];
    put_post(r, line);
    send_all(r->fd, &r->wire);
    char *head = read_head(r->fd, &r->raw);
    if (strncmp(head, "HTTP/1.1 200", 12) != 0) give_up(head);
    if (!header(head, "acp-connection-id:", r->connection, sizeof r->connection) ||
        !header(head, "content-length:", length, sizeof length))
        give_up("the answer to initialize has no id, or no length");
    size_t wanted = strtoul(length, NULL, 10);
    while (r->raw.end - r->raw.start < wanted)
        if (reader_fill(&r->raw) <= 0) give_up("the answer to initialize is cut");
    append(in, r->raw.buf + r->raw.start, wanted);
    append(in, "\n", 1);
    r->raw.start = r->raw.seen = r->raw.end;
    listen_to(r, (span){NULL, 0});
}

static inline void put_frame(struct writer *w, int opcode, span payload) {
    unsigned char head[14] = {(unsigned char)(0x80 | opcode)};
    static const char mask[4] = {0x37, (char)0xfa, 0x21, 0x3d};
    size_t n = 2;
    if (payload.n < 126) {
        head[1] = (unsigned char)(0x80 | payload.n);
    } else {
        int bytes = payload.n < 65536 ? 2 : 8;
        head[1] = bytes == 2 ? 0xfe : 0xff;
        for (int i = bytes; i > 0; i--) head[n++] = (unsigned char)(payload.n >> (8 * (i - 1)));
    }
    put(w, (char *)head, n);
    put(w, mask, 4);
    put_span(w, payload);
    char *at = w->buf + w->len - payload.n;
    for (size_t i = 0; i < payload.n; i++) at[i] = (char)(at[i] ^ mask[i & 3]);
}

/* Turns the lines in `out` into what is sent; they are whole lines. */
static inline void remote_encode(struct remote *r, struct writer *out, struct reader *in) {
    char *at = out->buf, *end = out->buf + out->len;
    while (at < end) {
        char *newline = memchr(at, '\n', (size_t)(end - at));
        span line = {at, (size_t)(newline - at)};
        if (r->way == WEBSOCKET) put_frame(&r->wire, 1, line);
        else if (r->connection[0] == '\0') http_initialize(r, line, in);
        else put_post(r, line);
        at = newline + 1;
    }
    out->len = 0;
}

/* Takes whole frames; 1, or 0 when the server closes. */
static inline int take_frames(struct remote *r, struct reader *in) {
    for (;;) {
        const unsigned char *p = (unsigned char *)r->raw.buf + r->raw.start;
        size_t have = r->raw.end - r->raw.start, length, head = 2;
        if (have < 2) return 1;
        length = p[1] & 0x7f;
        if (length >= 126) {
            int bytes = length == 126 ? 2 : 8;
            if (have < (size_t)(2 + bytes)) return 1;
            length = 0;
            for (int i = 0; i < bytes; i++) length = length << 8 | p[2 + i];
            head += (size_t)bytes;
        }
        if (have - head < length || have < head) return 1;
        int opcode = p[0] & 0x0f;
        span payload = {(const char *)p + head, length};
        if (opcode == 8) return 0;
        if (opcode == 9) put_frame(&r->wire, 10, payload);
        if (opcode <= 2) {
            append(in, payload.p, payload.n);
            if (p[0] & 0x80) append(in, "\n", 1);
        }
        r->raw.start = r->raw.seen = r->raw.start + head + length;
    }
}

/* Takes the chunks that are there, and of them the data of whole events; 0: the stream ends. */
static inline int take_events(struct stream *s, struct reader *in) {
    for (;;) {
        size_t have = s->raw.end - s->raw.start;
        char *at = s->raw.buf + s->raw.start;
        if (s->left > 2) { /* the chunk's bytes, then its line's end */
            size_t n = have < (size_t)(s->left - 2) ? have : (size_t)(s->left - 2);
            if (n == 0) break;
            append(&s->lines, at, n);
            s->raw.start += n;
            s->left -= (long)n;
        } else if (s->left > 0) {
            if (have == 0) break;
            s->raw.start++;
            s->left--;
        } else {
            char *newline = have > 0 ? memchr(at, '\n', have) : NULL;
            if (newline == NULL) break;
            s->left = strtol(at, NULL, 16) + 2;
            s->raw.start += (size_t)(newline - at) + 1;
            if (s->left == 2) return 0;
        }
        s->raw.seen = s->raw.start;
    }
    for (span line; reader_line(&s->lines, &line);) {
        if (line.n < 5 || memcmp(line.p, "data:", 5) != 0) continue;
        size_t skip = line.n > 5 && line.p[5] == ' ' ? 6 : 5;
        append(in, line.p + skip, line.n - skip);
        append(in, "\n", 1);
    }
    return 1;
}

/* Whether something that came over the connection of the POSTs refuses one of them. */
static inline bool refused(struct remote *r) {
    size_t n = r->raw.end - r->raw.start;
    char *at = r->raw.buf + r->raw.start;
    for (size_t i = 0; i + 10 <= n; i++)
        if (memcmp(at + i, "HTTP/1.1 ", 9) == 0 && at[i + 9] != '2') {
            fprintf(stderr, "client: %.*s\n", (int)(n - i < 500 ? n - i : 500), at + i);
            return true;
        }
    r->raw.start = r->raw.seen = r->raw.end;
    return false;
}

/* Reads what has come into `in`. 1: it goes on; 0: the server ends it; -1: it cannot be read. */
static inline int remote_read(struct remote *r, struct reader *in, const struct pollfd *fds) {
    if (fds[0].revents != 0) {
        r->raw.fd = r->fd;
        ssize_t got = reader_fill(&r->raw);
        if (got == 0 || (got < 0 && errno != EAGAIN)) return (int)got;
        if (r->way == WEBSOCKET && !take_frames(r, in)) return 0;
        if (r->way == HTTP && refused(r)) return -1;
    }
    for (int i = 0; i < r->open; i++) {
        if (fds[1 + i].revents == 0) continue;
        struct stream *s = &r->streams[i];
        s->raw.fd = s->fd;
        ssize_t got = reader_fill(&s->raw);
        if (got == 0 || (got < 0 && errno != EAGAIN)) return (int)got;
        if (!take_events(s, in)) return 0;
    }
    return 1;
}

static inline void remote_close(struct remote *r) {
    r->wire.len = 0;
    if (r->way == HTTP) {
        put_request(r, "DELETE");
        put_text(&r->wire, "\r\n");
    } else if (r->way == WEBSOCKET) {
        put_frame(&r->wire, 8, (span){"\x03\xe8", 2});
    }
    (void)!write(r->fd, r->wire.buf, r->wire.len);
    if (r->way == HTTP) { /* the streams end by it */
        struct pollfd answered = {r->fd, POLLIN, 0};
        poll(&answered, 1, 2000);
    }
    close(r->fd);
    for (int i = 0; i < r->open; i++) close(r->streams[i].fd);
}

#endif
