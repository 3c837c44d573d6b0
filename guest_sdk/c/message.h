/* message.h: a line read as a JSON-RPC message, its members left as spans. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include "json.h"

/* Members that are not there are absent spans; of repeated ones the last counts. */
typedef struct {
    span id, method, params, result, error;
    u8 valid; /* the line is one whole JSON object */
} message;

static message message_read(span json) {
    static const span names[] = {LITERAL("id"), LITERAL("method"), LITERAL("params"),
                                 LITERAL("result"), LITERAL("error")};
    message read = {0};
    span *const values[] = {&read.id, &read.method, &read.params, &read.result, &read.error};
    json_members walk = json_walk(json);
    while (json_next(&walk))
        for (u32 i = 0; i < sizeof names / sizeof *names; i++)
            if (json_is(walk.name, names[i])) *values[i] = walk.value;
    read.valid = walk.valid;
    return read;
}

/* Whether it is a call of this method, a request or a notification. */
static inline int message_calls(const message *read, span method) {
    return read->valid && json_is(read->method, method);
}

/* Refuses the conductor's request: every request has to be answered. */
__attribute__((unused)) static void message_refuse(const message *request) {
    channel_begin('c');
    channel_put(LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"));
    channel_put(request->id);
    channel_put(LITERAL(",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}"));
    channel_end();
}

#endif
