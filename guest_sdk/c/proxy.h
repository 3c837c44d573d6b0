/* proxy.h: handlers of methods that may wait for answers, for proxies in freestanding C.
 *
 *     static void prompt(proxy_message *said) {
 *         proxy_preface(said, CHANNEL_LITERAL("Answer in French."));
 *     }
 *     PROXY({"session/prompt", prompt})
 *
 * What has no handler passes, byte for byte. A message that a handler neither passed on,
 * answered, dropped nor asked something for is passed on. While one waits for an answer, later
 * messages of its session and direction wait behind it; answers of the client's never do.
 *
 * All that handlers are given, and what they make, lasts for one delivery. `tag` is theirs. */
#ifndef PROXY_H
#define PROXY_H

#include "kept.h"

/* A request or notification in a handler's hands. */
struct proxy_message {
    char side;   /* who said it: 'p' the client's side, 's' the agent's, 'c' the conductor */
    channel_span id;     /* as it is written; absent: a notification */
    channel_span params; /* absent: none */
    uint32_t tag;     /* the author's own, to tell one message from another */
    /* The rest is the library's. */
    channel_span line, answer;
    uint32_t number, lane;
    uint8_t settled, passed;
};

typedef void proxy_handler(proxy_message *said);

/* Who handles a method; of `session/update` one kind of update. */
typedef struct {
    const char *method;
    proxy_handler *handler;
    const char *update;
} proxy_call;

/* Declares what is handled, once:
 * PROXY({"session/prompt", prompt}, {"session/update", plan, "plan"}) */
#define PROXY(...)                                               \
    static const proxy_call *proxy_calls(uint32_t *count) {           \
        static const proxy_call calls[] = {__VA_ARGS__};         \
        *count = sizeof calls / sizeof *calls;                   \
        return calls;                                            \
    }
static const proxy_call *proxy_calls(uint32_t *count);

#define PROXY_API __attribute__((unused)) static
#define PROXY_CANCEL CHANNEL_LITERAL("$/cancel_request")
/* The code of proxy_fail where a component lets something not go on; -32000 would have editors show
   a login. */
#define PROXY_REFUSED (-31900)

static inline char proxy_other(char side) { return side == 'p' ? 's' : 'p'; }

/* What is under way. */
static struct {
    /* the lane whose lines are let go on: it does not hold up what comes from there */
    uint32_t open;
    uint8_t released; /* a lane was, since lines were looked through */
    uint32_t asked[3];
} proxy;

static void proxy_release(proxy_message *said) {
    kept_record *lane = said->lane ? kept_find(KEPT_LANE, said->lane) : 0;
    if (lane && lane->holder == said->number) lane->holder = 0;
    if (said->lane != proxy.open) proxy.released = 1;
    said->lane = 0;
}

static void proxy_settle(proxy_message *said) {
    said->settled = 1;
    proxy_release(said);
}

/* Has the line read again after a change. */
static void proxy_read(proxy_message *said, channel_span line) {
    message_line read = message_read(line);
    said->line = line;
    said->id = read.id;
    said->params = read.params;
}

/* -- what a handler reads ------------------------------------------------------------------ */

/* The JSON of what is there in the params, as it is written; absent: nothing. */
PROXY_API channel_span proxy_get(const proxy_message *said, const char *const *path) {
    return json_find(said->params, path);
}

/* A text in the params, decoded; absent if it is none. */
PROXY_API channel_span proxy_text(const proxy_message *said, const char *const *path) {
    return json_text(proxy_get(said, path));
}

/* The JSON of a setting, the user's choice; absent if it was not made. */
PROXY_API channel_span proxy_setting(const char *name) {
    uint32_t offset = 0;
    kept_record *told = kept_next(&offset, KEPT_SETTINGS);
    if (!told) return (channel_span){0, 0};
    channel_span found = json_find(kept_text(told), TEXT_PATH("params", "config", name));
    if (!found.at) return found;
    uint32_t place = (uint32_t)(found.at - channel.region[CHANNEL_KEEP].base);
    char *copy = channel_scratch(found.len); /* which may move what is kept */
    channel_copy(copy, channel.region[CHANNEL_KEEP].base + place, found.len);
    return (channel_span){copy, found.len};
}

/* Whether a line takes back a message: a cancellation of it, or of the turn it begins. */
static int proxy_takes_back(const proxy_message *said, channel_span line) {
    message_line read = message_read(line);
    if (message_calls(&read, CHANNEL_LITERAL("session/cancel"))) {
        message_line own = message_read(said->line);
        return said->side == 'p' && message_calls(&own, CHANNEL_LITERAL("session/prompt"));
    }
    if (!message_calls(&read, PROXY_CANCEL)) return 0;
    return text_equal(json_get(read.params, CHANNEL_LITERAL("requestId")), said->id);
}

/* Whether nobody wants the answer any more, said before it was passed on. What was asked for it is
 * cancelled then by itself. */
PROXY_API int proxy_cancelled(const proxy_message *said) {
    const kept_record *lane = said->lane ? kept_find(KEPT_LANE, said->lane) : 0;
    uint32_t offset = 0;
    kept_record *line;
    if (!lane || lane->side != said->side || !said->id.at) return 0;
    while ((line = kept_next(&offset, KEPT_LINE)))
        if (line->lane == said->lane && proxy_takes_back(said, kept_text(line))) return 1;
    return 0;
}

/* -- what a handler changes ---------------------------------------------------------------- */

static void proxy_splice(proxy_message *said, channel_span old, channel_span new) {
    uint32_t at = (uint32_t)(old.at - said->line.at), behind = at + old.len;
    channel_span rest = {said->line.at + behind, said->line.len - behind};
    proxy_read(said, TEXT_JOIN({said->line.at, at}, new, rest));
}

/* Replaces a value in the params; all other bytes stay. 0: there is none. */
PROXY_API int proxy_set(proxy_message *said, const char *const *path, channel_span json) {
    channel_span old = proxy_get(said, path);
    if (old.at) proxy_splice(said, old, json);
    return old.at != 0;
}

/* Puts an element in front of those of an array in the params. 0: there is none. */
PROXY_API int proxy_prepend(proxy_message *said, const char *const *path, channel_span element) {
    channel_span array = proxy_get(said, path);
    if (!array.at || *array.at != '[') return 0;
    int empty = *json_space(array.at + 1, array.at + array.len) == ']';
    channel_span comma = empty ? CHANNEL_LITERAL("") : CHANNEL_LITERAL(",");
    proxy_splice(said, (channel_span){array.at + 1, 0}, TEXT_JOIN(element, comma));
    return 1;
}

/* Puts a text in front of a prompt; behind one that may be a command, on a line of its own.
 * 0: there is no prompt. */
PROXY_API int proxy_preface(proxy_message *said, channel_span text) {
    channel_span prompt = proxy_get(said, TEXT_PATH("prompt"));
    if (!prompt.at || *prompt.at != '[') return 0;
    if (message_begins_plainly(prompt))
        return proxy_prepend(said, TEXT_PATH("prompt"), text_block(text));
    channel_span end = {prompt.at + prompt.len - 1, 0};
    proxy_splice(
        said, end,
        TEXT_JOIN(CHANNEL_LITERAL(","), text_block(TEXT_JOIN(CHANNEL_LITERAL("\n"), text))));
    return 1;
}

/* -- what a handler decides ---------------------------------------------------------------- */

/* Drops the cancellations of a message that wait: they are about nothing any more. */
static void proxy_forget(const proxy_message *said) {
    const kept_record *lane = said->lane ? kept_find(KEPT_LANE, said->lane) : 0;
    uint32_t offset = 0;
    kept_record *line;
    if (!lane || lane->side != said->side || !said->id.at) return;
    while ((line = kept_next(&offset, KEPT_LINE))) {
        message_line read = message_read(kept_text(line));
        if (line->lane == said->lane && message_calls(&read, PROXY_CANCEL) &&
            proxy_takes_back(said, kept_text(line)))
            kept_drop(line);
    }
}

static void proxy_reply(proxy_message *said, channel_span member, channel_span json) {
    proxy_forget(said);
    if (said->id.at && !said->settled)
        channel_send(said->side,
                     TEXT_JOIN(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"), said->id,
                               CHANNEL_LITERAL(","), member, json, CHANNEL_LITERAL("}")));
    proxy_settle(said);
}

/* Answers a request; with null if there is nothing. */
PROXY_API void proxy_answer(proxy_message *said, channel_span result) {
    proxy_reply(said, CHANNEL_LITERAL("\"result\":"), result.at ? result : CHANNEL_LITERAL("null"));
}

/* Answers a request with an error. */
PROXY_API void proxy_fail(proxy_message *said, int32_t code, channel_span text) {
    proxy_reply(
        said, CHANNEL_LITERAL("\"error\":"),
        TEXT_JOIN(CHANNEL_LITERAL("{\"code\":"), text_number(code),
                  CHANNEL_LITERAL(",\"message\":"), json_quote(text), CHANNEL_LITERAL("}")));
}

/* Lets a notification go no further. A request has to be answered, so this fails it. */
PROXY_API void proxy_drop(proxy_message *said) {
    proxy_fail(said, -32601, CHANNEL_LITERAL("Method not found"));
}

/* Passes it on as it is now; the answer goes back by itself. */
PROXY_API void proxy_pass(proxy_message *said) {
    if (said->settled || said->passed) return;
    if (said->side == 'c') {
        proxy_drop(said);
        return;
    }
    channel_send(proxy_other(said->side), said->line);
    proxy_settle(said);
}

static void proxy_expect(proxy_message *said, char side, channel_span id, proxy_then *then,
                         uint8_t passed) {
    kept_record *awaited = kept_push(KEPT_AWAITED, side, id);
    awaited->number = said->number;
    awaited->then = then;
    awaited->passed = passed;
}

/* Passes a request on as it is now; `then` is given the answer. That goes back as it came, unless
 * `then` ends the message otherwise. What has no answer to come is passed on, and that is all. */
PROXY_API void proxy_next(proxy_message *said, proxy_then *then) {
    if (!said->id.at || said->settled || said->passed || said->side == 'c') {
        proxy_pass(said);
        return;
    }
    channel_send(proxy_other(said->side), said->line);
    said->passed = 1;
    proxy_expect(said, proxy_other(said->side), said->id, then, 1);
    proxy_release(said);
}

static void proxy_say(char side, channel_span id, channel_span method, channel_span params) {
    channel_begin(side);
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\","));
    if (id.at) channel_put(TEXT_JOIN(CHANNEL_LITERAL("\"id\":"), id, CHANNEL_LITERAL(",")));
    channel_put(TEXT_JOIN(CHANNEL_LITERAL("\"method\":"), json_quote(method)));
    if (params.at) channel_put(TEXT_JOIN(CHANNEL_LITERAL(",\"params\":"), params));
    channel_put(CHANNEL_LITERAL("}"));
    channel_end();
}

/* Sends a request of one's own, `params` absent for none; the message waits for the answer. */
PROXY_API void proxy_ask(proxy_message *said, char side, const char *method, channel_span params,
                         proxy_then *then) {
    channel_span digits = text_number((int32_t)++proxy.asked[side == 'p'   ? 0
                                                             : side == 's' ? 1
                                                                           : 2]);
    /* The conductor's ids are integers, so on its sides ours are texts. */
    channel_span id =
        side == 'c' ? digits : TEXT_JOIN(CHANNEL_LITERAL("\"x"), digits, CHANNEL_LITERAL("\""));
    proxy_expect(said, side, id, then, 0);
    proxy_say(side, id, text_of(method), params);
}

/* Asks the conductor what time it is. */
PROXY_API void proxy_clock(proxy_message *said, proxy_then *then) {
    proxy_ask(said, 'c', "clock", (channel_span){0, 0}, then);
}

/* Sends a notification of one's own. */
PROXY_API void proxy_notify(char side, const char *method, channel_span params) {
    proxy_say(side, (channel_span){0, 0}, text_of(method), params);
}

/* Writes to the conductor's log: debug, info, warn or error. */
PROXY_API void proxy_log(const char *level, channel_span text) {
    proxy_notify(
        'c', "log",
        TEXT_JOIN(CHANNEL_LITERAL("{\"level\":"), json_quote(text_of(level)),
                  CHANNEL_LITERAL(",\"message\":"), json_quote(text), CHANNEL_LITERAL("}")));
}

static channel_span proxy_words;

/* Ends the proxy; the host shows the text. */
__attribute__((unused, noreturn)) static void proxy_panic(channel_span text) {
    proxy_words = text;
    __builtin_trap();
}

/* What the host asks for after a trap. */
__attribute__((export_name("channel_fault"))) uint64_t channel_fault(void) {
    return (uint64_t)(uint32_t)proxy_words.at << 32 | proxy_words.len;
}

#include "walk.h"

#endif
