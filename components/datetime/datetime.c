/* datetime: puts the date and the time in front of every prompt; behind one that may be a command.
 *
 * A sandboxed proxy has no clock, so for each `session/prompt` it asks the
 * conductor's `clock` service. Until the answer is there the prompt waits, and with
 * it all that comes from the editor later, since nothing may overtake. What comes
 * from the agent flows on at once. Only the block is put in: every other byte of
 * the prompt stays what it was. */
#include "message.h"
#include "queue.h"

/* The text of the block as the inside of a JSON string; the configuration's
 * `template` replaces it, in its JSON form too, so nothing is ever unescaped. */
#define TEMPLATE_BYTES 4096
#define TEMPLATE LITERAL("<current-date date=\\\"{date}\\\" time=\\\"{time}\\\"/>")
static char template_bytes[TEMPLATE_BYTES];
static span template = TEMPLATE;

/* Placeholders, and the members of the clock's answer that replace them. */
#define PLACEHOLDERS 4
static const span placeholders[PLACEHOLDERS] = {LITERAL("{date}"), LITERAL("{time}"),
                                                LITERAL("{weekday}"), LITERAL("{timezone}")};

static u32 asked;        /* the id of the last clock request */
static u32 asked_during; /* the delivery it was sent in, while that is unanswered */
static u8 warned;        /* the refusal was logged */

static void warn(span text, span detail) {
    channel_begin('c');
    channel_put(LITERAL("{\"jsonrpc\":\"2.0\",\"method\":\"log\",\"params\":"
                        "{\"level\":\"warn\",\"message\":\"datetime: "));
    channel_put(text);
    channel_put(detail);
    channel_put(LITERAL("\"}}"));
    channel_end();
}

/* The clock request a prompt waits for; prompts of one delivery share it. */
static u32 ask_clock(void) {
    if (asked_during == channel.serial) return asked;
    asked_during = channel.serial;
    if (!++asked) asked = 1; /* 0 stands for none */
    channel_begin('c');
    channel_put(LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"));
    channel_put_u32(asked);
    channel_put(LITERAL(",\"method\":\"clock\"}"));
    channel_end();
    return asked;
}

/* Adds to the text in scratch, which grows in one piece. */
static void append(span *text, span bytes) {
    channel_copy(channel_scratch(bytes.len), bytes.at, bytes.len);
    text->len += bytes.len;
}

/* Which placeholder a text starts with; PLACEHOLDERS if none. */
static u32 placeholder_at(const char *at, const char *end) {
    u32 which = 0;
    while (which < PLACEHOLDERS && !json_skip_word(at, end, placeholders[which])) which++;
    return which;
}

/* How the block begins. */
static const span BLOCK = LITERAL("{\"type\":\"text\",\"text\":\"");

/* The block to put in, made from the clock's answer; absent if the answer lacks
 * what the template asks for. */
static span make_block(span result) {
    span block = {channel_scratch(0), 0};
    append(&block, BLOCK);
    const char *at = template.at, *end = at + template.len;
    while (at < end) {
        const char *plain = at;
        u32 which = PLACEHOLDERS;
        while (at < end && (*at != '{' || (which = placeholder_at(at, end)) == PLACEHOLDERS)) at++;
        append(&block, (span){plain, (u32)(at - plain)});
        if (which == PLACEHOLDERS) break;
        span name = placeholders[which];
        span value = json_get(result, (span){name.at + 1, name.len - 2});
        if (!json_is_string(value)) return (span){0, 0};
        append(&block, json_inside(value));
        at += name.len;
    }
    append(&block, LITERAL("\"}"));
    return block;
}

/* Sends a held line on; a prompt with its block, which stands in front of it, or behind, on a line of
 * its own. */
static void send_held(const held *record, span block) {
    span json = queue_line(record);
    if (!record->ask) {
        channel_send('s', json);
        return;
    }
    channel_begin('s');
    if (json.at[record->splice] == ']' && json.at[record->splice - 1] != '[') {
        span rest = {json.at + record->splice, json.len - record->splice};
        span text = {block.at + BLOCK.len, block.len - BLOCK.len};
        channel_put((span){json.at, record->splice});
        channel_put(LITERAL(","));
        channel_put(BLOCK);
        channel_put(LITERAL("\\n"));
        channel_put(text);
        channel_put(rest);
    } else {
        json_put_prepended(json, record->splice, block);
    }
    channel_end();
}

/* Sends on, in order, all that waits for nothing any more. An answer serves older
 * requests too: its time is a later one than theirs would be. */
static void release(u32 answered, span block) {
    while (!queue_empty()) {
        const held *record = queue_at(queue.head);
        if (record->ask && (!block.at || (int)(record->ask - answered) > 0)) return;
        send_held(record, block);
        queue_pop();
    }
}

/* No time to be had: the prompts of this request go on as they are. */
static void give_up(u32 answered, span reason, span detail) {
    for (u32 at = queue.head; at != queue.tail; at = queue_next(at))
        if (queue_at(at)->ask == answered) queue_at(at)->ask = 0;
    if (!warned) warn(reason, detail);
    warned = 1;
    release(answered, (span){0, 0});
}

/* The number of one of our own requests, 0 if the id is none. */
static u32 own_id(span id) {
    u64 number = 0;
    for (u32 i = 0; i < id.len; i++) {
        if (id.at[i] < '0' || id.at[i] > '9' || number > asked) return 0;
        number = number * 10 + (u64)(id.at[i] - '0');
    }
    return number > asked ? 0 : (u32)number;
}

static void on_answer(const message *answer) {
    u32 answered = own_id(answer->id);
    if (!answered) return;
    if (answered == asked) asked_during = 0;
    if (!answer->result.at) {
        span detail = json_get(answer->error, LITERAL("message"));
        give_up(answered, LITERAL("clock not granted, prompts go on without the date: "),
                json_is_string(detail) ? json_inside(detail) : LITERAL("no reason given"));
        return;
    }
    span block = make_block(answer->result);
    if (block.at) release(answered, block);
    else give_up(answered, LITERAL("the clock's answer lacks what the template asks for, "),
                 LITERAL("prompts go on without the date"));
}

static void set_template(span value) {
    if (!json_is_string(value) || value.len - 2 > TEMPLATE_BYTES) {
        warn(LITERAL("config.template must be a string of at most 4096 bytes, "),
             LITERAL("the default is used"));
        return;
    }
    span inside = json_inside(value);
    channel_copy(template_bytes, inside.at, inside.len);
    template = (span){template_bytes, inside.len};
}

static void on_configure(span params) {
    template = TEMPLATE;
    span config = json_get(params, LITERAL("config"));
    if (!config.at) return;
    json_members walk = json_walk(config);
    while (json_next(&walk)) {
        if (json_is(walk.name, LITERAL("template"))) set_template(walk.value);
        else warn(LITERAL("unknown configuration key: "), json_inside(walk.name));
    }
}

static void on_conductor(span json) {
    message said = message_read(json);
    if (!said.valid) return;
    if (!said.method.at) on_answer(&said);
    else if (message_calls(&said, LITERAL("configure"))) on_configure(said.params);
    else if (said.id.at) message_refuse(&said);
}

/* Where in this line the block goes in; 0 if it is no prompt that takes one. */
static u32 splice_point(span json) {
    message said = message_read(json);
    if (!said.id.at || !message_calls(&said, LITERAL("session/prompt"))) return 0;
    span prompt = json_get(said.params, LITERAL("prompt"));
    if (!prompt.at || *prompt.at != '[') return 0;
    u32 start = (u32)(prompt.at + 1 - json.at);
    return message_begins_plainly(prompt) ? start : start + prompt.len - 2;
}

static void on_editor(span json) {
    u32 splice = splice_point(json);
    if (splice) queue_push(json, ask_clock(), splice);
    else if (queue_empty()) channel_forward();
    else queue_push(json, 0, 0);
}

static void on_line(char side, span json) {
    if (side == 'p') on_editor(json);
    else if (side == 'c') on_conductor(json);
    else channel_forward();
}
