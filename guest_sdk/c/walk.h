/* walk.h: the way of a line through a proxy of proxy.h, which includes it. */
#ifndef WALK_H
#define WALK_H

#include "proxy.h"

static channel_span walk_session(channel_span params) {
    channel_span session = json_get(params, CHANNEL_LITERAL("sessionId"));
    return session.at ? session : CHANNEL_LITERAL("");
}

/* The lane of a session on a side; 0: none. */
static uint32_t walk_lane(char side, channel_span session) {
    uint32_t offset = 0;
    kept_record *lane;
    while ((lane = kept_next(&offset, KEPT_LANE)))
        if (lane->side == side && json_same(kept_text(lane), session)) return lane->number;
    return 0;
}

static void walk_hold(proxy_message *said, char side) {
    channel_span session = walk_session(said->params);
    uint32_t number = walk_lane(side, session);
    kept_record *lane = number ? kept_find(KEPT_LANE, number) : kept_push(KEPT_LANE, side, session);
    if (!number) lane->number = ++keeper.numbers;
    lane->holder = said->number;
    said->lane = lane->number;
}

/* The lane of a side with a request of this id; 0: none. */
static uint32_t walk_lane_with(char side, channel_span id) {
    uint32_t offset = 0;
    kept_record *one;
    while ((one = kept_next(&offset, KEPT_MESSAGE))) {
        message_line read = message_read(kept_text(one));
        if (one->lane && one->side == side && text_equal(read.id, id)) return one->lane;
    }
    for (offset = 0; (one = kept_next(&offset, KEPT_LINE));) {
        message_line read = message_read(kept_text(one));
        if (one->side == side && read.method.at && text_equal(read.id, id)) return one->lane;
    }
    return 0;
}

/* The lane a message has to wait in; 0: none. */
static uint32_t walk_blocked(char side, const message_line *read) {
    if (side == 'c' || !keeper.count[KEPT_LANE]) return 0;
    uint32_t lane = json_is(read->method, PROXY_CANCEL)
                   ? walk_lane_with(side, json_get(read->params, CHANNEL_LITERAL("requestId")))
                   : walk_lane(side, walk_session(read->params));
    return lane == proxy.open ? 0 : lane;
}

/* Has a line wait; one that waits already does so where it is. */
static void walk_wait(kept_record *held, char side, channel_span line, uint32_t lane) {
    if (!held) held = kept_push(KEPT_LINE, side, line);
    held->lane = lane;
}

/* Cancels what was asked for a message that a line takes back. */
static void walk_withdraw(uint32_t lane, channel_span line) {
    const kept_record *place = kept_find(KEPT_LANE, lane);
    const kept_record *holder = place->holder ? kept_find(KEPT_MESSAGE, place->holder) : 0;
    if (!holder || holder->side != place->side) return;
    uint32_t number = holder->number, offset = 0;
    proxy_message said = {.side = holder->side, .line = kept_text(holder)};
    said.id = message_read(said.line).id;
    kept_record *awaited;
    if (!said.id.at || !proxy_takes_back(&said, line)) return;
    while ((awaited = kept_next(&offset, KEPT_AWAITED))) {
        if (awaited->number != number || awaited->passed || awaited->done || awaited->side == 'c')
            continue;
        awaited->done = 1;
        char side = awaited->side;
        channel_span id = kept_text(awaited);
        channel_begin(side); /* nothing is taken from scratch here, so the record stays in place */
        channel_put(
            CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":"));
        channel_put(CHANNEL_LITERAL("{\"requestId\":"));
        channel_put(id);
        channel_put(CHANNEL_LITERAL("}}"));
        channel_end();
    }
}

/* How many answers a message waits for. */
static uint32_t walk_waits(uint32_t number) {
    uint32_t offset = 0, waits = 0;
    kept_record *awaited;
    while ((awaited = kept_next(&offset, KEPT_AWAITED))) waits += awaited->number == number;
    return waits;
}

/* After a handler: what was decided, and what is left to wait for. */
static void walk_finish(proxy_message *said) {
    if (walk_waits(said->number)) {
        kept_record *waiting = kept_push(KEPT_MESSAGE, said->side, said->line);
        waiting->number = said->number;
        waiting->lane = said->lane;
        waiting->passed = said->passed;
        waiting->done = said->settled;
        waiting->tag = said->tag;
        if (said->answer.at)
            kept_push(KEPT_ANSWER, said->side, said->answer)->number = said->number;
        return;
    }
    if (said->answer.at && !said->settled) {
        channel_send(said->side, said->answer);
        proxy_settle(said);
    }
    proxy_pass(said);
}

/* Where a text that is kept lies, whatever moves meanwhile. */
static inline uint32_t walk_place(const kept_record *record) {
    return (uint32_t)(kept_text(record).at - channel.region[CHANNEL_KEEP].base);
}

/* A copy for this delivery of what was kept there; dropped records keep their bytes until things
 * are tidied, when a line has gone its way. */
static channel_span walk_copy(uint32_t place, uint32_t length) {
    char *copy = channel_scratch(length); /* which may move what is kept */
    channel_copy(copy, channel.region[CHANNEL_KEEP].base + place, length);
    return (channel_span){copy, length};
}

/* The same of a record, which is dropped. */
static channel_span walk_take(kept_record *record) {
    uint32_t place = walk_place(record), length = record->length;
    kept_drop(record);
    return walk_copy(place, length);
}

/* Hands an answer to whoever waits for it; 0: nobody does. `held`: it waited in a lane. */
static int walk_answer(kept_record *held, char side, channel_span line, const message_line *read) {
    uint32_t offset = 0;
    kept_record *awaited;
    while ((awaited = kept_next(&offset, KEPT_AWAITED)))
        if (awaited->side == side && text_equal(kept_text(awaited), read->id)) break;
    if (!awaited) return 0;
    kept_record *waiting = kept_find(KEPT_MESSAGE, awaited->number);
    if (!waiting) __builtin_trap(); /* it is kept as long as it waits */
    channel_span session = walk_session(message_read(kept_text(waiting)).params);
    uint32_t lane = awaited->passed ? walk_lane(side, session) : 0;
    if (lane && lane != proxy.open) {
        walk_wait(held, side, line, lane);
        return 1;
    }
    uint8_t passed = awaited->passed;
    proxy_then *then = awaited->then;
    proxy_message said = {.side = waiting->side, .tag = waiting->tag, .number = waiting->number,
                          .lane = waiting->lane, .settled = waiting->done,
                          .passed = waiting->passed};
    kept_drop(awaited);
    if (held) line = walk_take(held);
    proxy_read(&said, walk_take(kept_find(KEPT_MESSAGE, said.number)));
    kept_record *before = kept_find(KEPT_ANSWER, said.number);
    if (before) said.answer = walk_take(before);
    if (passed) {
        said.answer = line;
        walk_hold(&said, side);
    }
    const message_line answer = message_read(line);
    if (then) then(&said, &answer);
    walk_finish(&said);
    return 1;
}

static void walk_answered(kept_record *held, char side, channel_span line,
                          const message_line *read) {
    if (walk_answer(held, side, line, read)) return;
    /* An answer that ends a turn must not overtake what came before it. */
    uint32_t offset = 0;
    kept_record *lane;
    while (side == 's' && (lane = kept_next(&offset, KEPT_LANE)))
        if (lane->side == side && lane->number != proxy.open) {
            walk_wait(held, side, line, lane->number);
            return;
        }
    if (side != 'c') channel_send(proxy_other(side), line);
    if (held) kept_drop(held);
}

static proxy_handler *walk_handler(const message_line *read) {
    uint32_t count;
    const proxy_call *call = proxy_calls(&count);
    proxy_handler *found = 0;
    for (; count--; call++) {
        if (!json_is(read->method, text_of(call->method))) continue;
        if (!call->update) {
            if (!found) found = call->handler;
            continue;
        }
        channel_span kind = json_find(read->params, TEXT_PATH("update", "sessionUpdate"));
        if (json_is(kind, text_of(call->update))) return call->handler;
    }
    return found;
}

/* A line goes its way. `held`: it waited in a lane, and is taken from there if it goes. */
static void walk_line(kept_record *held, char side, channel_span line) {
    message_line read = message_read(line);
    if (read.valid && !read.method.at) {
        walk_answered(held, side, line, &read);
        return;
    }
    uint32_t lane = read.valid ? walk_blocked(side, &read) : 0;
    if (lane) {
        walk_wait(held, side, line, lane);
        if (read.method.at) walk_withdraw(lane, line);
        return;
    }
    if (side == 'c' && message_calls(&read, CHANNEL_LITERAL("configure"))) {
        uint32_t offset = 0;
        kept_record *told = kept_next(&offset, KEPT_SETTINGS);
        if (told) kept_drop(told);
        kept_push(KEPT_SETTINGS, side, line);
    }
    proxy_handler *handler = read.valid ? walk_handler(&read) : 0;
    if (!handler) {
        if (side == 'c' && read.valid && read.id.at) message_refuse(&read);
        if (side != 'c' && held) channel_send(proxy_other(side), line);
        if (!held) channel_forward();
        if (held) kept_drop(held);
        return;
    }
    proxy_message said = {.side = side, .number = ++keeper.numbers};
    if (held) line = walk_take(held);
    proxy_read(&said, line);
    if (side != 'c') walk_hold(&said, side);
    handler(&said);
    walk_finish(&said);
}

/* Lets go on what waits for nobody any more. */
static void walk_drain(void) {
    do {
        proxy.released = 0;
        kept_record *line;
        for (uint32_t offset = 0; (line = kept_next(&offset, KEPT_LINE));) {
            uint32_t number = line->lane;
            if (kept_find(KEPT_LANE, number)->holder) continue;
            proxy.open = number;
            walk_line(line, line->side, kept_text(line));
            proxy.open = 0;
        }
    } while (proxy.released);
    kept_record *lane, *line;
    for (uint32_t offset = 0; (lane = kept_next(&offset, KEPT_LANE));) {
        uint32_t number = lane->number, used = lane->holder != 0;
        for (uint32_t at = 0; !used && (line = kept_next(&at, KEPT_LINE));)
            used = line->lane == number;
        if (!used) kept_drop(lane);
    }
    kept_tidy();
}

static void channel_on_line(char side, channel_span line) {
    walk_line(0, side, line);
    if (keeper.end) walk_drain();
}

#endif
