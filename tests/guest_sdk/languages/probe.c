/* The proxy that probe.txt describes. */
#include "proxy.h"

static void made(proxy_message *said, const message *answer) {
    if (answer->result.at)
        proxy_answer(said, JOIN(LITERAL("{\"wrapped\":"), answer->result, LITERAL("}")));
}

static void new(proxy_message *said) { proxy_next(said, made); }

static void list(proxy_message *said) { proxy_answer(said, LITERAL("{\"sessions\":[]}")); }

static void delete(proxy_message *said) {
    proxy_fail(said, -32001, JOIN(LITERAL("never "), proxy_get(said, PATH("sessionId"))));
}

static void warm(proxy_message *said, const message *answer) { (void)said, (void)answer; }

static void prompt(proxy_message *said) {
    span word = proxy_setting("word");
    if (!word.at) word = LITERAL("null");
    proxy_ask(said, 's', "_probe/warm", JOIN(LITERAL("{\"word\":"), word, LITERAL("}")), warm);
}

static void slow(proxy_message *said, const message *answer) {
    (void)answer;
    if (proxy_cancelled(said)) proxy_fail(said, -32800, LITERAL("Request cancelled"));
}

static void fork(proxy_message *said) {
    proxy_ask(said, 's', "_probe/slow", (span){0, 0}, slow);
}

static void kept_value(proxy_message *said, const message *answer) {
    if (answer->result.at) proxy_answer(said, json_get(answer->result, LITERAL("value")));
}

static void ask(proxy_message *said) {
    proxy_ask(said, 'c', "kv/get", LITERAL("{\"key\":\"k\"}"), kept_value);
}

static void plan(proxy_message *said) { proxy_drop(said); }

static void usage(proxy_message *said) {
    proxy_ask(said, 'c', "kv/get", LITERAL("{\"key\":\"k\"}"), warm);
}

static void fired(proxy_message *said) {
    (void)said;
    proxy_notify('p', "_probe/fired", LITERAL("{\"n\":1.0}"));
    proxy_log("info", LITERAL("fired"));
}

static void faulty(proxy_message *said) {
    (void)said;
    proxy_panic(LITERAL("wrong on purpose"));
}

static void configure(proxy_message *said) {
    span before = proxy_get(said, PATH("kept"));
    if (before.at) proxy_notify('c', "keep", JOIN(LITERAL("{\"b\":"), before, LITERAL("}")));
}

PROXY({"configure", configure}, {"_probe/fault", faulty}, {"session/new", new},
      {"session/list", list}, {"session/delete", delete},
      {"session/prompt", prompt}, {"session/fork", fork}, {"_probe/ask", ask},
      {"session/update", plan, "plan"}, {"session/update", usage, "usage_update"},
      {"timer/fired", fired})
