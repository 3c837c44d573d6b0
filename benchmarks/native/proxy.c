/* A pass-through proxy written by hand: the least a proxy process can cost.
 *
 * Dialect `acp`: told its role by `proxy/initialize`; both ways to and from the
 * successor are `proxy/successor`. Each request it passes on gets an id of its
 * own (the two sides share one id space on the wire); answers, params and the
 * ids it hands back keep their bytes. A cancel is re-issued with the id the
 * request has on the next hop. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>

#include "io.h"

struct pending {
    char *id; /* the sender's id, NULL: free */
    size_t len;
    long next_free;
};

static struct pending *table;
static long table_size, free_head = -1;

/* The id a request goes on under; -1 for a notification. */
static long remember(span id) {
    if (id.p == NULL) return -1;
    if (free_head < 0) {
        long size = table_size == 0 ? 64 : table_size * 2;
        table = must_realloc(table, (size_t)size * sizeof *table);
        for (long i = size - 1; i >= table_size; i--) {
            table[i].id = NULL;
            table[i].next_free = free_head;
            free_head = i;
        }
        table_size = size;
    }
    long slot = free_head;
    free_head = table[slot].next_free;
    table[slot].id = must_realloc(NULL, id.n + 1);
    memcpy(table[slot].id, id.p, id.n);
    table[slot].len = id.n;
    return slot;
}

static void forget(long slot) {
    free(table[slot].id);
    table[slot].id = NULL;
    table[slot].next_free = free_head;
    free_head = slot;
}

/* The slot an id of ours names, or -1. */
static long slot_of(span id) {
    char digits[24], *end;
    if (id.n == 0 || id.n >= sizeof digits) return -1;
    memcpy(digits, id.p, id.n);
    digits[id.n] = '\0';
    long slot = strtol(digits, &end, 10);
    if (*end != '\0' || slot < 0 || slot >= table_size || table[slot].id == NULL) return -1;
    return slot;
}

static void put_head(struct writer *out, long slot, const char *method, size_t length) {
    char id[48];
    put_text(out, "{\"jsonrpc\":\"2.0\",");
    if (slot >= 0) {
        snprintf(id, sizeof id, "\"id\":%ld,", slot);
        put_text(out, id);
    }
    put_text(out, "\"method\":\"");
    put(out, method, length);
    put_text(out, "\"");
}

/* A request (slot >= 0) or notification to the predecessor: as it is. */
static void send_up(struct writer *out, long slot, span method, span params) {
    put_head(out, slot, method.p, method.n);
    if (params.p != NULL) {
        put_text(out, ",\"params\":");
        put_span(out, params);
    }
    put_text(out, "}");
    put_newline(out);
}

/* The same to the successor: in the envelope. */
static void send_down(struct writer *out, long slot, span method, span params) {
    static const char envelope[] = "proxy/successor";
    put_head(out, slot, envelope, sizeof envelope - 1);
    put_text(out, ",\"params\":{\"method\":\"");
    put_span(out, method);
    put_text(out, "\"");
    if (params.p != NULL) {
        put_text(out, ",\"params\":");
        put_span(out, params);
    }
    put_text(out, "}}");
    put_newline(out);
}

static void pass_answer(struct writer *out, const struct message *m) {
    long slot = slot_of(m->id);
    if (slot < 0) return; /* an answer to nothing */
    put_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    put(out, table[slot].id, table[slot].len);
    if (m->error.p != NULL) {
        put_text(out, ",\"error\":");
        put_span(out, m->error);
    } else {
        put_text(out, ",\"result\":");
        put_span(out, m->result);
    }
    put_text(out, "}");
    put_newline(out);
    forget(slot);
}

/* Cancels are rare, so the table is searched rather than indexed twice. */
static void pass_cancel(struct writer *out, span params) {
    static const char method[] = "$/cancel_request";
    char text[64];
    span id = json_member(params, "requestId");
    for (long slot = 0; id.p != NULL && slot < table_size; slot++) {
        const struct pending *p = &table[slot];
        if (p->id == NULL || p->len != id.n || memcmp(p->id, id.p, id.n) != 0) continue;
        put_head(out, -1, method, sizeof method - 1);
        snprintf(text, sizeof text, ",\"params\":{\"requestId\":%ld}}", slot);
        put_text(out, text);
        put_newline(out);
        return;
    }
}

static void refuse(struct writer *out, span id) {
    if (id.p == NULL) return;
    put_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    put_span(out, id);
    put_text(out, ",\"error\":{\"code\":-32602,\"message\":\"proxy/successor without a method\"}}");
    put_newline(out);
}

static void handle(span line, struct writer *out) {
    struct message m;
    if (!json_message(line, &m)) return;
    if (m.method.p == NULL) {
        if (m.id.p != NULL && (m.result.p != NULL || m.error.p != NULL)) pass_answer(out, &m);
        return;
    }
    if (m.id.p == NULL && span_is(m.method, "$/cancel_request")) {
        pass_cancel(out, m.params);
        return;
    }
    if (span_is(m.method, "proxy/successor")) {
        span method = json_text(json_member(m.params, "method"));
        if (method.p == NULL) refuse(out, m.id);
        else send_up(out, remember(m.id), method, json_member(m.params, "params"));
        return;
    }
    long slot = remember(m.id);
    if (span_is(m.method, "proxy/initialize")) {
        span method = {"initialize", 10};
        send_down(out, slot, method, m.params);
    } else {
        send_down(out, slot, m.method, m.params);
    }
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    serve_lines(handle);
    return 0;
}
