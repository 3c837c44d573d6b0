/* Lines in, lines out, few system calls: a reader takes what the pipe holds
 * and yields whole lines of it; a writer gathers lines and is flushed when the
 * batch that was readable has been dealt with. Lines may be of any length. */
#ifndef BENCH_IO_H
#define BENCH_IO_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"

enum { READ_ROOM = 128 * 1024, FLUSH_AT = 64 * 1024 };

struct reader {
    int fd;
    char *buf;
    size_t cap, start, end, seen; /* seen: no newline before this offset */
};

struct writer {
    int fd;
    char *buf;
    size_t cap, len;
};

static inline void *must_realloc(void *old, size_t size) {
    void *p = realloc(old, size);
    if (p == NULL) {
        fprintf(stderr, "out of memory for %zu bytes\n", size);
        exit(3);
    }
    return p;
}

/* One read. > 0: bytes came; 0: end of file; -1: see errno. Invalidates the
 * spans of earlier lines. */
static inline ssize_t reader_fill(struct reader *r) {
    if (r->start == r->end) r->start = r->end = r->seen = 0;
    if (r->cap - r->end < READ_ROOM / 2) {
        if (r->start > 0) {
            memmove(r->buf, r->buf + r->start, r->end - r->start);
            r->end -= r->start;
            r->seen -= r->start;
            r->start = 0;
        }
        if (r->cap - r->end < READ_ROOM / 2) {
            r->cap = r->cap == 0 ? READ_ROOM : r->cap * 2;
            r->buf = must_realloc(r->buf, r->cap);
        }
    }
    ssize_t n;
    do n = read(r->fd, r->buf + r->end, r->cap - r->end);
    while (n < 0 && errno == EINTR);
    if (n > 0) r->end += (size_t)n;
    return n;
}

/* The next whole line without its newline; false when none is there yet. */
static inline bool reader_line(struct reader *r, span *line) {
    if (r->seen == r->end) return false;
    char *newline = memchr(r->buf + r->seen, '\n', r->end - r->seen);
    if (newline == NULL) {
        r->seen = r->end;
        return false;
    }
    line->p = r->buf + r->start;
    line->n = (size_t)(newline - line->p);
    if (line->n > 0 && line->p[line->n - 1] == '\r') line->n--;
    r->start = r->seen = (size_t)(newline - r->buf) + 1;
    return true;
}

static inline void put(struct writer *w, const char *p, size_t n) {
    if (w->len + n > w->cap) {
        while (w->len + n > w->cap) w->cap = w->cap == 0 ? FLUSH_AT * 2 : w->cap * 2;
        w->buf = must_realloc(w->buf, w->cap);
    }
    memcpy(w->buf + w->len, p, n);
    w->len += n;
}

static inline void put_text(struct writer *w, const char *text) { put(w, text, strlen(text)); }

static inline void put_span(struct writer *w, span s) { put(w, s.p, s.n); }

/* Blocking. A reader that went away ends the program: nobody is left to serve. */
static inline void writer_flush(struct writer *w) {
    size_t done = 0;
    while (done < w->len) {
        ssize_t n = write(w->fd, w->buf + done, w->len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) exit(errno == EPIPE ? 0 : 3);
        done += (size_t)n;
    }
    w->len = 0;
}

/* Ends a line; a long batch leaves early so that memory stays small. */
static inline void put_newline(struct writer *w) {
    put(w, "\n", 1);
    if (w->len >= FLUSH_AT) writer_flush(w);
}

/* Calls handle for every line of stdin until its end, one flush per read. */
static inline void serve_lines(void (*handle)(span line, struct writer *out)) {
    struct reader in = {0, NULL, 0, 0, 0, 0};
    struct writer out = {1, NULL, 0, 0};
    span line;
    while (reader_fill(&in) > 0) {
        while (reader_line(&in, &line)) handle(line, &out);
        writer_flush(&out);
    }
}

#endif
