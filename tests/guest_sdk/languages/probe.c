/* The proxy that probe.txt describes. */
#include "proxy.h"

static void made(proxy_message *said, const message_line *answer) {
    if (answer->result.at)
        proxy_answer(said, TEXT_JOIN(CHANNEL_LITERAL("{\"wrapped\":"), answer->result,
                                     CHANNEL_LITERAL("}")));
}

static void new(proxy_message *said) { proxy_next(said, made); }

static void list(proxy_message *said) { proxy_answer(said, CHANNEL_LITERAL("{\"sessions\":[]}")); }

static void delete(proxy_message *said) {
    proxy_fail(said, -32001,
               TEXT_JOIN(CHANNEL_LITERAL("never "), proxy_get(said, TEXT_PATH("sessionId"))));
}

static void warm(proxy_message *said, const message_line *answer) { (void)said, (void)answer; }

static void prompt(proxy_message *said) {
    channel_span word = proxy_setting("word");
    if (!word.at) word = CHANNEL_LITERAL("null");
    proxy_ask(said, 's', "_probe/warm",
              TEXT_JOIN(CHANNEL_LITERAL("{\"word\":"), word, CHANNEL_LITERAL("}")), warm);
}

static void slow(proxy_message *said, const message_line *answer) {
    (void)answer;
    if (proxy_cancelled(said)) proxy_fail(said, -32800, CHANNEL_LITERAL("Request cancelled"));
}

static void fork(proxy_message *said) {
    proxy_ask(said, 's', "_probe/slow", (channel_span){0, 0}, slow);
}

static void kept_value(proxy_message *said, const message_line *answer) {
    if (answer->result.at) proxy_answer(said, json_get(answer->result, CHANNEL_LITERAL("value")));
}

static void ask(proxy_message *said) {
    proxy_ask(said, 'c', "kv/get", CHANNEL_LITERAL("{\"key\":\"k\"}"), kept_value);
}

static void plan(proxy_message *said) { proxy_drop(said); }

static void usage(proxy_message *said) {
    proxy_ask(said, 'c', "kv/get", CHANNEL_LITERAL("{\"key\":\"k\"}"), warm);
}

static void fired(proxy_message *said) {
    (void)said;
    proxy_notify('p', "_probe/fired", CHANNEL_LITERAL("{\"n\":1.0}"));
    proxy_log("info", CHANNEL_LITERAL("fired"));
}

static void faulty(proxy_message *said) {
    (void)said;
    proxy_panic(CHANNEL_LITERAL("wrong on purpose"));
}

static void configure(proxy_message *said) {
    channel_span before = proxy_get(said, TEXT_PATH("kept"));
    if (before.at)
        proxy_notify('c', "keep",
                     TEXT_JOIN(CHANNEL_LITERAL("{\"b\":"), before, CHANNEL_LITERAL("}")));
}

PROXY({"configure", configure}, {"_probe/fault", faulty}, {"session/new", new},
      {"session/list", list}, {"session/delete", delete},
      {"session/prompt", prompt}, {"session/fork", fork}, {"_probe/ask", ask},
      {"session/update", plan, "plan"}, {"session/update", usage, "usage_update"},
      {"timer/fired", fired})
