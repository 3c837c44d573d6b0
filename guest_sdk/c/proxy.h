/* proxy.h: handlers of methods that may wait for answers, for proxies in freestanding C.
 *
 *     static void prompt(proxy_message *said) {
 *         proxy_preface(said, LITERAL("Answer in French."));
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
    span id;     /* as it is written; absent: a notification */
    span params; /* absent: none */
    u32 tag;     /* the author's own, to tell one message from another */
    /* The rest is the library's. */
    span line, answer;
    u32 number, lane;
    u8 settled, passed;
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
    static const proxy_call *proxy_calls(u32 *count) {           \
        static const proxy_call calls[] = {__VA_ARGS__};         \
        *count = sizeof calls / sizeof *calls;                   \
        return calls;                                            \
    }
static const proxy_call *proxy_calls(u32 *count);

#define PROXY_API __attribute__((unused)) static
#define PROXY_CANCEL LITERAL("$/cancel_request")
/* The code of proxy_fail where a component lets something not go on; -32000 would have editors show
   a login. */
#define PROXY_REFUSED (-31900)

static inline char proxy_other(char side) { return side == 'p' ? 's' : 'p'; }

/* What is under way. */
static struct {
    u32 open;    /* the lane whose lines are let go on: it does not hold up what comes from there */
    u8 released; /* a lane was, since lines were looked through */
    u32 asked[3];
} proxy;

static void proxy_release(proxy_message *said) {
    kept *lane = said->lane ? kept_find(KEPT_LANE, said->lane) : 0;
    if (lane && lane->holder == said->number) lane->holder = 0;
    if (said->lane != proxy.open) proxy.released = 1;
    said->lane = 0;
}

static void proxy_settle(proxy_message *said) {
    said->settled = 1;
    proxy_release(said);
}

/* Has the line read again after a change. */
static void proxy_read(proxy_message *said, span line) {
    message read = message_read(line);
    said->line = line;
    said->id = read.id;
    said->params = read.params;
}

/* -- what a handler reads ------------------------------------------------------------------ */

/* The JSON of what is there in the params, as it is written; absent: nothing. */
PROXY_API span proxy_get(const proxy_message *said, const char *const *path) {
    return json_find(said->params, path);
}

/* A text in the params, decoded; absent if it is none. */
PROXY_API span proxy_text(const proxy_message *said, const char *const *path) {
    return json_text(proxy_get(said, path));
}

/* The JSON of a setting, the user's choice; absent if it was not made. */
PROXY_API span proxy_setting(const char *name) {
    u32 offset = 0;
    kept *told = kept_next(&offset, KEPT_SETTINGS);
    if (!told) return (span){0, 0};
    span found = json_find(kept_text(told), PATH("params", "config", name));
    if (!found.at) return found;
    u32 place = (u32)(found.at - channel.region[REGION_KEEP].base);
    char *copy = channel_scratch(found.len); /* which may move what is kept */
    channel_copy(copy, channel.region[REGION_KEEP].base + place, found.len);
    return (span){copy, found.len};
}

/* Whether a line takes back a message: a cancellation of it, or of the turn it begins. */
static int proxy_takes_back(const proxy_message *said, span line) {
    message read = message_read(line);
    if (message_calls(&read, LITERAL("session/cancel"))) {
        message own = message_read(said->line);
        return said->side == 'p' && message_calls(&own, LITERAL("session/prompt"));
    }
    if (!message_calls(&read, PROXY_CANCEL)) return 0;
    return text_equal(json_get(read.params, LITERAL("requestId")), said->id);
}

/* Whether nobody wants the answer any more, said before it was passed on. What was asked for it is
 * cancelled then by itself. */
PROXY_API int proxy_cancelled(const proxy_message *said) {
    const kept *lane = said->lane ? kept_find(KEPT_LANE, said->lane) : 0;
    u32 offset = 0;
    kept *line;
    if (!lane || lane->side != said->side || !said->id.at) return 0;
    while ((line = kept_next(&offset, KEPT_LINE)))
        if (line->lane == said->lane && proxy_takes_back(said, kept_text(line))) return 1;
    return 0;
}

/* -- what a handler changes ---------------------------------------------------------------- */

static void proxy_splice(proxy_message *said, span old, span new) {
    u32 at = (u32)(old.at - said->line.at), behind = at + old.len;
    span rest = {said->line.at + behind, said->line.len - behind};
    proxy_read(said, JOIN({said->line.at, at}, new, rest));
}

/* Replaces a value in the params; all other bytes stay. 0: there is none. */
PROXY_API int proxy_set(proxy_message *said, const char *const *path, span json) {
    span old = proxy_get(said, path);
    if (old.at) proxy_splice(said, old, json);
    return old.at != 0;
}

/* Puts an element in front of those of an array in the params. 0: there is none. */
PROXY_API int proxy_prepend(proxy_message *said, const char *const *path, span element) {
    span array = proxy_get(said, path);
    if (!array.at || *array.at != '[') return 0;
    int empty = *json_space(array.at + 1, array.at + array.len) == ']';
    span comma = empty ? LITERAL("") : LITERAL(",");
    proxy_splice(said, (span){array.at + 1, 0}, JOIN(element, comma));
    return 1;
}

/* Puts a text in front of a prompt; behind one that may be a command, on a line of its own.
 * 0: there is no prompt. */
PROXY_API int proxy_preface(proxy_message *said, span text) {
    span prompt = proxy_get(said, PATH("prompt"));
    if (!prompt.at || *prompt.at != '[') return 0;
    if (message_begins_plainly(prompt)) return proxy_prepend(said, PATH("prompt"), text_block(text));
    span end = {prompt.at + prompt.len - 1, 0};
    proxy_splice(said, end, JOIN(LITERAL(","), text_block(JOIN(LITERAL("\n"), text))));
    return 1;
}

/* -- what a handler decides ---------------------------------------------------------------- */

/* Drops the cancellations of a message that wait: they are about nothing any more. */
static void proxy_forget(const proxy_message *said) {
    const kept *lane = said->lane ? kept_find(KEPT_LANE, said->lane) : 0;
    u32 offset = 0;
    kept *line;
    if (!lane || lane->side != said->side || !said->id.at) return;
    while ((line = kept_next(&offset, KEPT_LINE))) {
        message read = message_read(kept_text(line));
        if (line->lane == said->lane && message_calls(&read, PROXY_CANCEL) &&
            proxy_takes_back(said, kept_text(line)))
            kept_drop(line);
    }
}

static void proxy_reply(proxy_message *said, span member, span json) {
    proxy_forget(said);
    if (said->id.at && !said->settled)
        channel_send(said->side, JOIN(LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"), said->id,
                                      LITERAL(","), member, json, LITERAL("}")));
    proxy_settle(said);
}

/* Answers a request; with null if there is nothing. */
PROXY_API void proxy_answer(proxy_message *said, span result) {
    proxy_reply(said, LITERAL("\"result\":"), result.at ? result : LITERAL("null"));
}

/* Answers a request with an error. */
PROXY_API void proxy_fail(proxy_message *said, i32 code, span text) {
    proxy_reply(said, LITERAL("\"error\":"),
                JOIN(LITERAL("{\"code\":"), text_number(code), LITERAL(",\"message\":"),
                     json_quote(text), LITERAL("}")));
}

/* Lets a notification go no further. A request has to be answered, so this fails it. */
PROXY_API void proxy_drop(proxy_message *said) {
    proxy_fail(said, -32601, LITERAL("Method not found"));
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

static void proxy_expect(proxy_message *said, char side, span id, proxy_then *then, u8 passed) {
    kept *awaited = kept_push(KEPT_AWAITED, side, id);
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

static void proxy_say(char side, span id, span method, span params) {
    channel_begin(side);
    channel_put(LITERAL("{\"jsonrpc\":\"2.0\","));
    if (id.at) channel_put(JOIN(LITERAL("\"id\":"), id, LITERAL(",")));
    channel_put(JOIN(LITERAL("\"method\":"), json_quote(method)));
    if (params.at) channel_put(JOIN(LITERAL(",\"params\":"), params));
    channel_put(LITERAL("}"));
    channel_end();
}

/* Sends a request of one's own, `params` absent for none; the message waits for the answer. */
PROXY_API void proxy_ask(proxy_message *said, char side, const char *method, span params,
                         proxy_then *then) {
    span digits = text_number((i32)++proxy.asked[side == 'p' ? 0 : side == 's' ? 1 : 2]);
    /* The conductor's ids are integers, so on its sides ours are texts. */
    span id = side == 'c' ? digits : JOIN(LITERAL("\"x"), digits, LITERAL("\""));
    proxy_expect(said, side, id, then, 0);
    proxy_say(side, id, text_of(method), params);
}

/* Asks the conductor what time it is. */
PROXY_API void proxy_clock(proxy_message *said, proxy_then *then) {
    proxy_ask(said, 'c', "clock", (span){0, 0}, then);
}

/* Sends a notification of one's own. */
PROXY_API void proxy_notify(char side, const char *method, span params) {
    proxy_say(side, (span){0, 0}, text_of(method), params);
}

/* Writes to the conductor's log: debug, info, warn or error. */
PROXY_API void proxy_log(const char *level, span text) {
    proxy_notify('c', "log", JOIN(LITERAL("{\"level\":"), json_quote(text_of(level)),
                                  LITERAL(",\"message\":"), json_quote(text), LITERAL("}")));
}

static span proxy_words;

/* Ends the proxy; the host shows the text. */
__attribute__((unused, noreturn)) static void proxy_panic(span text) {
    proxy_words = text;
    __builtin_trap();
}

/* What the host asks for after a trap. */
__attribute__((export_name("channel_fault"))) u64 channel_fault(void) {
    return (u64)(u32)proxy_words.at << 32 | proxy_words.len;
}

#include "walk.h"

#endif
