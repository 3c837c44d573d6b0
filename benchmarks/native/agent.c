/* The agent at the end of each chain: ACP v1, as fast as a pipe allows, so that
 * what is measured is what stands before it.
 *
 * The last text block of a prompt says what to do:
 *
 *   stream N S   N updates of S bytes of text each (at least 8: a counter from
 *                00000000 on, so that a loss or a swap shows), then the answer
 *   stream N S P the same, P updates a second
 *   quiet …      the answer alone
 *   blocks       one update with the number of blocks of the prompt, the answer
 *   all else     comes back as one update, then the answer
 *
 * Ids and texts are returned as they came; each session has an id of its own. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "io.h"

static long sessions;

static void answer(struct writer *out, span id, const char *member, const char *value) {
    put_text(out, "{\"jsonrpc\":\"2.0\",\"id\":");
    put_span(out, id);
    put_text(out, ",\"");
    put_text(out, member);
    put_text(out, "\":");
    put_text(out, value);
    put_text(out, "}");
    put_newline(out);
}

static void update_head(struct writer *out, span session) {
    put_text(out, "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":");
    put_span(out, session);
    put_text(out, ",\"update\":{\"sessionUpdate\":\"agent_message_chunk\","
                  "\"content\":{\"type\":\"text\",\"text\":\"");
}

static void update_tail(struct writer *out) {
    put_text(out, "\"}}}}");
    put_newline(out);
}

static void update(struct writer *out, span session, span text) {
    update_head(out, session);
    put_span(out, text);
    update_tail(out);
}

static void stream(struct writer *out, span session, long count, long size, long pace) {
    const struct timespec pause = {pace == 1, pace > 1 ? 1000000000L / pace : 0};
    struct writer head = {-1, NULL, 0, 0}; /* a buffer only, never flushed */
    char *fill = must_realloc(NULL, (size_t)size);
    memset(fill, 'x', (size_t)size);
    update_head(&head, session);
    for (long i = 0; i < count; i++) {
        long rest = i;
        for (int digit = 7; digit >= 0; digit--, rest /= 10) fill[digit] = (char)('0' + rest % 10);
        put(out, head.buf, head.len);
        put(out, fill, (size_t)size);
        update_tail(out);
        if (pace > 0) writer_flush(out), nanosleep(&pause, NULL);
    }
    free(head.buf);
    free(fill);
}

static void prompt(struct writer *out, span id, span params) {
    span session = json_member(params, "sessionId");
    long blocks = 0;
    span text = json_text(json_member(json_last(json_member(params, "prompt"), &blocks), "text"));
    char command[64];
    long count, size, pace = 0;
    if (session.p == NULL || text.p == NULL) {
        answer(out, id, "error",
               "{\"code\":-32602,\"message\":\"sessionId and a text block are needed\"}");
        return;
    }
    snprintf(command, sizeof command, "%.*s", text.n < 63 ? (int)text.n : 63, text.p);
    if (sscanf(command, "stream %ld %ld %ld", &count, &size, &pace) >= 2 && count >= 0 &&
        size >= 0) {
        stream(out, session, count, size < 8 ? 8 : size, pace);
    } else if (span_is(text, "blocks")) {
        span number = {command, (size_t)snprintf(command, sizeof command, "%ld", blocks)};
        update(out, session, number);
    } else if (strncmp(command, "quiet ", 6) != 0) {
        update(out, session, text);
    }
    answer(out, id, "result", "{\"stopReason\":\"end_turn\"}");
}

static void handle(span line, struct writer *out) {
    struct message m;
    if (!json_message(line, &m) || m.method.p == NULL || m.id.p == NULL) return;
    if (span_is(m.method, "session/prompt")) {
        prompt(out, m.id, m.params);
    } else if (span_is(m.method, "initialize")) {
        answer(out, m.id, "result",
               "{\"protocolVersion\":1,\"authMethods\":[],"
               "\"agentCapabilities\":{\"sessionCapabilities\":{\"list\":{}}},"
               "\"agentInfo\":{\"name\":\"bench-agent\",\"version\":\"1\"}}");
    } else if (span_is(m.method, "session/list")) {
        answer(out, m.id, "result", "{\"sessions\":[]}");
    } else if (span_is(m.method, "session/new")) {
        char result[64];
        snprintf(result, sizeof result, "{\"sessionId\":\"bench-%ld\"}", ++sessions);
        answer(out, m.id, "result", result);
    } else {
        answer(out, m.id, "error", "{\"code\":-32601,\"message\":\"Method not found\"}");
    }
}

/* As slow to start as the variable says, for what a chain adds to such an agent. */
static void start_slowly(void) {
    const char *ms = getenv("BENCH_AGENT_STARTS_MS");
    long long ns = ms == NULL ? 0 : strtoll(ms, NULL, 10) * 1000000LL;
    struct timespec left = {ns / 1000000000LL, ns % 1000000000LL};
    nanosleep(&left, NULL);
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    start_slowly();
    serve_lines(handle);
    return 0;
}
