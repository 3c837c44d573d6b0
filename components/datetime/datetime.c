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
#define TEMPLATE CHANNEL_LITERAL("<current-date date=\\\"{date}\\\" time=\\\"{time}\\\"/>")
static char template_bytes[TEMPLATE_BYTES];
static channel_span template = TEMPLATE;

/* Placeholders, and the members of the clock's answer that replace them. */
#define PLACEHOLDERS 4
static const channel_span placeholders[PLACEHOLDERS] = {
    CHANNEL_LITERAL("{date}"), CHANNEL_LITERAL("{time}"), CHANNEL_LITERAL("{weekday}"),
    CHANNEL_LITERAL("{timezone}")};

static uint32_t asked;        /* the id of the last clock request */
static uint32_t asked_during; /* the delivery it was sent in, while that is unanswered */
static uint8_t warned;        /* the refusal was logged */

static void warn(channel_span text, channel_span detail) {
    channel_begin('c');
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"method\":\"log\",\"params\":"
                        "{\"level\":\"warn\",\"message\":\"datetime: "));
    channel_put(text);
    channel_put(detail);
    channel_put(CHANNEL_LITERAL("\"}}"));
    channel_end();
}

/* The clock request a prompt waits for; prompts of one delivery share it. */
static uint32_t ask_clock(void) {
    if (asked_during == channel.serial) return asked;
    asked_during = channel.serial;
    if (!++asked) asked = 1; /* 0 stands for none */
    channel_begin('c');
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"));
    channel_put_u32(asked);
    channel_put(CHANNEL_LITERAL(",\"method\":\"clock\"}"));
    channel_end();
    return asked;
}

/* Adds to the text in scratch, which grows in one piece. */
static void append(channel_span *text, channel_span bytes) {
    channel_copy(channel_scratch(bytes.len), bytes.at, bytes.len);
    text->len += bytes.len;
}

/* Which placeholder a text starts with; PLACEHOLDERS if none. */
static uint32_t placeholder_at(const char *at, const char *end) {
    uint32_t which = 0;
    while (which < PLACEHOLDERS && !json_skip_word(at, end, placeholders[which])) which++;
    return which;
}

/* How the block begins. */
static const channel_span BLOCK = CHANNEL_LITERAL("{\"type\":\"text\",\"text\":\"");

/* The block to put in, made from the clock's answer; absent if the answer lacks
 * what the template asks for. */
static channel_span make_block(channel_span result) {
    channel_span block = {channel_scratch(0), 0};
    append(&block, BLOCK);
    const char *at = template.at, *end = at + template.len;
    while (at < end) {
        const char *plain = at;
        uint32_t which = PLACEHOLDERS;
        while (at < end && (*at != '{' || (which = placeholder_at(at, end)) == PLACEHOLDERS)) at++;
        append(&block, (channel_span){plain, (uint32_t)(at - plain)});
        if (which == PLACEHOLDERS) break;
        channel_span name = placeholders[which];
        channel_span value = json_get(result, (channel_span){name.at + 1, name.len - 2});
        if (!json_is_string(value)) return (channel_span){0, 0};
        append(&block, json_inside(value));
        at += name.len;
    }
    append(&block, CHANNEL_LITERAL("\"}"));
    return block;
}

/* Sends a held line on; a prompt with its block, which stands in front of it, or behind, on a line of
 * its own. */
static void send_held(const held *record, channel_span block) {
    channel_span json = queue_line(record);
    if (!record->ask) {
        channel_send('s', json);
        return;
    }
    channel_begin('s');
    if (json.at[record->splice] == ']' && json.at[record->splice - 1] != '[') {
        channel_span rest = {json.at + record->splice, json.len - record->splice};
        channel_span text = {block.at + BLOCK.len, block.len - BLOCK.len};
        channel_put((channel_span){json.at, record->splice});
        channel_put(CHANNEL_LITERAL(","));
        channel_put(BLOCK);
        channel_put(CHANNEL_LITERAL("\\n"));
        channel_put(text);
        channel_put(rest);
    } else {
        json_put_prepended(json, record->splice, block);
    }
    channel_end();
}

/* Sends on, in order, all that waits for nothing any more. An answer serves older
 * requests too: its time is a later one than theirs would be. */
static void release(uint32_t answered, channel_span block) {
    while (!queue_empty()) {
        const held *record = queue_at(queue.head);
        if (record->ask && (!block.at || (int)(record->ask - answered) > 0)) return;
        send_held(record, block);
        queue_pop();
    }
}

/* No time to be had: the prompts of this request go on as they are. */
static void give_up(uint32_t answered, channel_span reason, channel_span detail) {
    for (uint32_t at = queue.head; at != queue.tail; at = queue_next(at))
        if (queue_at(at)->ask == answered) queue_at(at)->ask = 0;
    if (!warned) warn(reason, detail);
    warned = 1;
    release(answered, (channel_span){0, 0});
}

/* The number of one of our own requests, 0 if the id is none. */
static uint32_t own_id(channel_span id) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < id.len; i++) {
        if (id.at[i] < '0' || id.at[i] > '9' || number > asked) return 0;
        number = number * 10 + (uint64_t)(id.at[i] - '0');
    }
    return number > asked ? 0 : (uint32_t)number;
}

static void on_answer(const message_line *answer) {
    uint32_t answered = own_id(answer->id);
    if (!answered) return;
    if (answered == asked) asked_during = 0;
    if (!answer->result.at) {
        channel_span detail = json_get(answer->error, CHANNEL_LITERAL("message"));
        give_up(answered, CHANNEL_LITERAL("no clock, prompts go on without the date: "),
                json_is_string(detail) ? json_inside(detail) : CHANNEL_LITERAL("no reason given"));
        return;
    }
    channel_span block = make_block(answer->result);
    if (block.at) release(answered, block);
    else give_up(answered, CHANNEL_LITERAL("the clock's answer lacks what the template asks for, "),
                 CHANNEL_LITERAL("prompts go on without the date"));
}

static void set_template(channel_span value) {
    if (!json_is_string(value) || value.len - 2 > TEMPLATE_BYTES) {
        warn(CHANNEL_LITERAL("config.template must be a string of at most 4096 bytes, "),
             CHANNEL_LITERAL("the default is used"));
        return;
    }
    channel_span inside = json_inside(value);
    channel_copy(template_bytes, inside.at, inside.len);
    template = (channel_span){template_bytes, inside.len};
}

static void on_configure(channel_span params) {
    template = TEMPLATE;
    channel_span config = json_get(params, CHANNEL_LITERAL("config"));
    if (!config.at) return;
    json_members walk = json_walk(config);
    while (json_next(&walk)) {
        if (json_is(walk.name, CHANNEL_LITERAL("template"))) set_template(walk.value);
        else warn(CHANNEL_LITERAL("unknown configuration key: "), json_inside(walk.name));
    }
}

static void on_conductor(channel_span json) {
    message_line said = message_read(json);
    if (!said.valid) return;
    if (!said.method.at) on_answer(&said);
    else if (message_calls(&said, CHANNEL_LITERAL("configure"))) on_configure(said.params);
    else if (said.id.at) message_refuse(&said);
}

/* Where in this line the block goes in; 0 if it is no prompt that takes one. */
static uint32_t splice_point(channel_span json) {
    message_line said = message_read(json);
    if (!said.id.at || !message_calls(&said, CHANNEL_LITERAL("session/prompt"))) return 0;
    channel_span prompt = json_get(said.params, CHANNEL_LITERAL("prompt"));
    if (!prompt.at || *prompt.at != '[') return 0;
    uint32_t start = (uint32_t)(prompt.at + 1 - json.at);
    return message_begins_plainly(prompt) ? start : start + prompt.len - 2;
}

static void on_editor(channel_span json) {
    uint32_t splice = splice_point(json);
    if (splice) queue_push(json, ask_clock(), splice);
    else if (queue_empty()) channel_forward();
    else queue_push(json, 0, 0);
}

static void channel_on_line(char side, channel_span json) {
    if (side == 'p') on_editor(json);
    else if (side == 'c') on_conductor(json);
    else channel_forward();
}
