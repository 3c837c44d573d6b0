/* tools.h: the tools, and how an answer of MCP is written. */
#ifndef TOOLS_H
#define TOOLS_H

#include "decimal.h"
#include "sessions.h"

#define TOOLS                                                                                   \
    CHANNEL_LITERAL(                                                                            \
        "[{\"name\":\"add\",\"description\":\"Adds two numbers\",\"inputSchema\":{"             \
        "\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"number\"},"                      \
        "\"b\":{\"type\":\"number\"}},\"required\":[\"a\",\"b\"]},\"outputSchema\":{"           \
        "\"type\":\"object\",\"properties\":{\"sum\":{\"type\":\"number\"}},"                   \
        "\"required\":[\"sum\"]},\"annotations\":{\"readOnlyHint\":true}},"                     \
        "{\"name\":\"echo\",\"description\":\"Answers the text it is given\","                  \
        "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}," \
        "\"required\":[\"text\"]},\"annotations\":{\"readOnlyHint\":true}},"                    \
        "{\"name\":\"fail\",\"description\":\"Always fails, with the message it is given\","    \
        "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"message\":{"                    \
        "\"type\":\"string\"}}},\"annotations\":{\"readOnlyHint\":true}},"                      \
        "{\"name\":\"progress\",\"description\":\"Reports progress in so many steps, then is "  \
        "done\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"steps\":{"               \
        "\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":3}}},"                 \
        "\"annotations\":{\"readOnlyHint\":true}},"                                             \
        "{\"name\":\"whoami\",\"description\":\"Answers the id of the session it is called "    \
        "in\",\"inputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true}}]")

#define MOST_STEPS 1000u
#define STEPS 3u

/* A request of MCP that came in an `mcp/message`. */
typedef struct {
    channel_span id;            /* of the message */
    channel_span address; /* the members that name its server or connection, to be sent back */
    const server *from; /* the server it is for */
    channel_span params;        /* of the request */
    uint8_t stateless;       /* the official form, whose answers lie in a member of the result */
    uint8_t modern;          /* in MCP of 2026-07-28, as it says itself or as the form implies */
} call;

static void answer_begin(const call *to, channel_span member) {
    channel_begin('s');
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"));
    channel_put(to->id);
    channel_put(to->stateless ? CHANNEL_LITERAL(",\"result\":{\"") : CHANNEL_LITERAL(",\""));
    channel_put(member);
    channel_put(CHANNEL_LITERAL("\":"));
}

static void answer_end(const call *to) {
    channel_put(to->stateless ? CHANNEL_LITERAL("}}") : CHANNEL_LITERAL("}"));
    channel_end();
}

/* Starts a result; its members follow, each but the last with a comma behind it. */
static void result_begin(const call *to) {
    answer_begin(to, CHANNEL_LITERAL("result"));
    channel_put(to->modern ? CHANNEL_LITERAL("{\"resultType\":\"complete\",")
                           : CHANNEL_LITERAL("{"));
}

static void result_end(const call *to) {
    channel_put(CHANNEL_LITERAL("}"));
    answer_end(to);
}

/* What a result that clients may keep says of that; nothing in older revisions. */
static void put_lifetime(const call *to) {
    if (to->modern) channel_put(CHANNEL_LITERAL("\"ttlMs\":60000,\"cacheScope\":\"private\","));
}

/* An error; `text` and `detail` are the inside of a JSON string. */
static void answer_error(const call *to, channel_span code, channel_span text,
                         channel_span detail) {
    answer_begin(to, CHANNEL_LITERAL("error"));
    channel_put(CHANNEL_LITERAL("{\"code\":"));
    channel_put(code);
    channel_put(CHANNEL_LITERAL(",\"message\":\""));
    channel_put(text);
    channel_put(detail);
    channel_put(CHANNEL_LITERAL("\"}"));
    answer_end(to);
}

/* What a tool answers, a text (the inside of a JSON string) in two parts. */
static void put_text(channel_span text, channel_span more) {
    channel_put(CHANNEL_LITERAL("\"content\":[{\"type\":\"text\",\"text\":\""));
    channel_put(text);
    channel_put(more);
    channel_put(CHANNEL_LITERAL("\"}]"));
}

static void tool_text(const call *to, channel_span text) {
    result_begin(to);
    put_text(text, CHANNEL_LITERAL(""));
    result_end(to);
}

static void tool_error(const call *to, channel_span text, channel_span more) {
    result_begin(to);
    put_text(text, more);
    channel_put(CHANNEL_LITERAL(",\"isError\":true"));
    result_end(to);
}

static int is_number(channel_span value) {
    return value.at && (*value.at == '-' || (*value.at >= '0' && *value.at <= '9'));
}

static void tool_add(const call *to, channel_span arguments) {
    channel_span a = json_get(arguments, CHANNEL_LITERAL("a")),
                 b = json_get(arguments, CHANNEL_LITERAL("b"));
    static decimal first, second, sum;
    if (!is_number(a) || !is_number(b)) {
        tool_error(to, CHANNEL_LITERAL("`a` and `b` must be numbers"), CHANNEL_LITERAL(""));
        return;
    }
    if (!decimal_read(a, &first) || !decimal_read(b, &second) ||
        !decimal_add(&first, &second, &sum)) {
        tool_error(to,
                   CHANNEL_LITERAL("a number has more than 160 digits before or behind its point"),
                   CHANNEL_LITERAL(""));
        return;
    }
    result_begin(to);
    channel_put(CHANNEL_LITERAL("\"content\":[{\"type\":\"text\",\"text\":\""));
    decimal_put(&sum);
    channel_put(CHANNEL_LITERAL("\"}],\"structuredContent\":{\"sum\":"));
    decimal_put(&sum);
    channel_put(CHANNEL_LITERAL("}"));
    result_end(to);
}

static void tool_echo(const call *to, channel_span arguments) {
    channel_span text = json_get(arguments, CHANNEL_LITERAL("text"));
    if (json_is_string(text)) tool_text(to, json_inside(text));
    else tool_error(to, CHANNEL_LITERAL("`text` must be a string"), CHANNEL_LITERAL(""));
}

static void tool_fail(const call *to, channel_span arguments) {
    channel_span text = json_get(arguments, CHANNEL_LITERAL("message"));
    tool_error(to,
               json_is_string(text) ? json_inside(text) : CHANNEL_LITERAL("this tool always fails"),
               CHANNEL_LITERAL(""));
}

static void report_progress(const call *to, channel_span token, uint32_t done, uint32_t steps) {
    channel_begin('s');
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"method\":\"mcp/message\",\"params\":{"));
    channel_put(to->address);
    channel_put(
        CHANNEL_LITERAL(",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":"));
    channel_put(token);
    channel_put(CHANNEL_LITERAL(",\"progress\":"));
    channel_put_u32(done);
    channel_put(CHANNEL_LITERAL(",\"total\":"));
    channel_put_u32(steps);
    channel_put(CHANNEL_LITERAL(",\"message\":\"step "));
    channel_put_u32(done);
    channel_put(CHANNEL_LITERAL("\"}}}"));
    channel_end();
}

/* The number of steps asked for; 0 if it is none from 1 to MOST_STEPS. */
static uint32_t steps_of(channel_span value) {
    uint32_t steps = 0;
    if (!value.at) return STEPS;
    for (uint32_t i = 0; i < value.len; i++) {
        if (value.at[i] < '0' || value.at[i] > '9') return 0;
        steps = steps * 10 + (uint32_t)(value.at[i] - '0');
        if (steps > MOST_STEPS) return 0;
    }
    return steps;
}

static void tool_progress(const call *to, channel_span arguments) {
    uint32_t steps = steps_of(json_get(arguments, CHANNEL_LITERAL("steps")));
    if (!steps) {
        tool_error(to, CHANNEL_LITERAL("`steps` must be a whole number from 1 to 1000"),
                   CHANNEL_LITERAL(""));
        return;
    }
    channel_span token =
        json_get(json_get(to->params, CHANNEL_LITERAL("_meta")), CHANNEL_LITERAL("progressToken"));
    for (uint32_t done = 1; token.at && done <= steps; done++)
        report_progress(to, token, done, steps);
    char room[10];
    channel_span count = {room, (uint32_t)(write_u32(room, steps) - room)};
    result_begin(to);
    put_text(CHANNEL_LITERAL("steps done: "), count);
    result_end(to);
}

static void tool_whoami(const call *to) {
    if (to->from->known)
        tool_text(to, json_inside((channel_span){to->from->session, to->from->known}));
    else
        tool_error(to, CHANNEL_LITERAL("the agent has not told the id of this session yet"),
                   CHANNEL_LITERAL(""));
}

static void call_tool(const call *to) {
    channel_span name = json_get(to->params, CHANNEL_LITERAL("name"));
    channel_span arguments = json_get(to->params, CHANNEL_LITERAL("arguments"));
    if (json_is(name, CHANNEL_LITERAL("add"))) tool_add(to, arguments);
    else if (json_is(name, CHANNEL_LITERAL("echo"))) tool_echo(to, arguments);
    else if (json_is(name, CHANNEL_LITERAL("fail"))) tool_fail(to, arguments);
    else if (json_is(name, CHANNEL_LITERAL("progress"))) tool_progress(to, arguments);
    else if (json_is(name, CHANNEL_LITERAL("whoami"))) tool_whoami(to);
    else
        answer_error(to, CHANNEL_LITERAL("-32602"), CHANNEL_LITERAL("tools-demo has no tool "),
                     json_is_string(name) ? json_inside(name) : CHANNEL_LITERAL("without a name"));
}

#endif
