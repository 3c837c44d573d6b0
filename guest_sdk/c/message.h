/* message.h: a line read as a JSON-RPC message, its members left as spans. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include "json.h"

/* Members that are not there are absent spans; of repeated ones the last counts. */
typedef struct {
    channel_span id, method, params, result, error;
    uint8_t valid; /* the line is one whole JSON object */
} message_line;

static message_line message_read(channel_span json) {
    static const channel_span names[] = {CHANNEL_LITERAL("id"), CHANNEL_LITERAL("method"),
                                         CHANNEL_LITERAL("params"), CHANNEL_LITERAL("result"),
                                         CHANNEL_LITERAL("error")};
    message_line read = {0};
    channel_span *const values[] = {&read.id, &read.method, &read.params, &read.result,
                                    &read.error};
    json_members walk = json_walk(json);
    while (json_next(&walk))
        for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
            if (json_is(walk.name, names[i])) *values[i] = walk.value;
    read.valid = walk.valid;
    return read;
}

/* Whether it is a call of this method, a request or a notification. */
static inline int message_calls(const message_line *read, channel_span method) {
    return read->valid && json_is(read->method, method);
}

/* Whether a text begins so that no agent takes it for a command; what is no text does. */
static int message_is_plain(channel_span text) {
    static const channel_span marks = CHANNEL_LITERAL(" /$!#:@&~%^*+-.?\x7f");
    if (!json_is_string(text)) return 1;
    uint8_t byte = (uint8_t)text.at[1];
    if (byte == '\\') return text.at[2] == '"';
    for (uint32_t i = 0; i < marks.len; i++)
        if (byte == (uint8_t)marks.at[i]) return 0;
    switch (byte) { /* what is not seen, and what looks like a mark, is among what begins so */
    case 0xc2: case 0xcd: case 0xd8: case 0xe1: case 0xe2: case 0xe3: case 0xef: case 0xf3:
        return 0;
    default:
        return 1;
    }
}

/* Whether a prompt, an array, begins with a text that no agent takes for a command, or has none. Such a
 * one takes in front what is added; any other behind, on a line of its own: a command must begin its
 * prompt, and agents have marks of their own for them. What comes with it before its first text counts
 * too: some agents read that first. A skill is a command in a block of its own. */
__attribute__((unused)) static int message_begins_plainly(channel_span prompt) {
    const char *end = prompt.at + prompt.len, *at = json_space(prompt.at + 1, end);
    while (*at != ']') {
        channel_span block = {at, (uint32_t)(json_skip(at, end) - at)};
        channel_span type = {0}, text = {0}, resource = {0};
        json_members walk = json_walk(block);
        while (json_next(&walk)) {
            if (json_is(walk.name, CHANNEL_LITERAL("type"))) type = walk.value;
            if (json_is(walk.name, CHANNEL_LITERAL("text"))) text = walk.value;
            if (json_is(walk.name, CHANNEL_LITERAL("resource"))) resource = walk.value;
        }
        if (!message_is_plain(text) ||
            !message_is_plain(json_get(resource, CHANNEL_LITERAL("text"))))
            return 0;
        if (type.len > 1 && type.at[1] == 's') return 0; /* `skill`: no other type begins so */
        if (json_is_string(text) && text.len > 2 && json_is(type, CHANNEL_LITERAL("text")))
            return 1;
        at = json_space(at + block.len, end);
        if (*at == ',') at = json_space(at + 1, end);
    }
    return 1;
}

/* Refuses the conductor's request: every request has to be answered. */
__attribute__((unused)) static void message_refuse(const message_line *request) {
    channel_begin('c');
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"));
    channel_put(request->id);
    channel_put(CHANNEL_LITERAL(",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}"));
    channel_end();
}

#endif
