/* text.h: texts and JSON put together, in memory that lasts for one delivery. */
#ifndef TEXT_H
#define TEXT_H

#include "json.h"

/* Texts one behind the other:
 * TEXT_JOIN(CHANNEL_LITERAL("{\"n\":"), number, CHANNEL_LITERAL("}")). */
#define TEXT_JOIN(...)                             \
    text_join((const channel_span[]){__VA_ARGS__}, \
              sizeof((const channel_span[]){__VA_ARGS__}) / sizeof(channel_span))

/* A path of names, from the outermost inwards: TEXT_PATH("update", "content"). */
#define TEXT_PATH(...) ((const char *const[]){__VA_ARGS__, 0})

/* A C string. */
static channel_span text_of(const char *string) {
    uint32_t length = 0;
    while (string[length]) length++;
    return (channel_span){string, length};
}

__attribute__((unused)) static int text_equal(channel_span one, channel_span other) {
    if (one.len != other.len) return 0;
    for (uint32_t i = 0; i < one.len; i++)
        if (one.at[i] != other.at[i]) return 0;
    return 1;
}

__attribute__((unused)) static channel_span text_join(const channel_span *parts, uint32_t count) {
    uint32_t length = 0;
    for (uint32_t i = 0; i < count; i++) length += parts[i].len;
    char *joined = channel_scratch(length), *at = joined;
    for (uint32_t i = 0; i < count; at += parts[i++].len)
        channel_copy(at, parts[i].at, parts[i].len);
    return (channel_span){joined, length};
}

/* A number in decimal. */
__attribute__((unused)) static channel_span text_number(int32_t number) {
    char digits[11];
    uint32_t at = sizeof digits, value = number < 0 ? -(uint32_t)number : (uint32_t)number;
    do digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    if (number < 0) digits[--at] = '-';
    return TEXT_JOIN({digits + at, (uint32_t)sizeof digits - at});
}

/* A text as a JSON string; escapes only what has to be. */
__attribute__((unused)) static channel_span json_quote(channel_span text) {
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    static const char hex[] = "0123456789abcdef";
    channel_region *scratch = &channel.region[CHANNEL_SCRATCH];
    char *quoted = channel_scratch(2), *to;
    const char *at = text.at, *end = at + text.len;
    uint32_t length = 1;
    quoted[0] = '"';
    while (at < end) {
        const char *plain = json_plain(at, end);
        uint32_t more = (uint32_t)(plain - at);
        to = channel_scratch(more + 6) - 1; /* pieces adjoin; what is too much is given back */
        channel_copy(to, at, more);
        to += more;
        if (plain < end) {
            int i = 0;
            while (values[i] && values[i] != *plain) i++;
            uint8_t byte = (uint8_t)*plain;
            to[0] = '\\';
            to[1] = names[i] ? names[i] : 'u';
            if (!names[i]) to[2] = to[3] = '0', to[4] = hex[byte >> 4], to[5] = hex[byte & 15];
            more += names[i] ? 2 : 6;
            plain++;
        }
        length += more;
        scratch->used = (uint32_t)(quoted - scratch->base) + length + 1;
        at = plain;
    }
    quoted[length] = '"';
    return (channel_span){quoted, length + 1};
}

/* A string value decoded; absent if it is none. U+FFFD stands for half an emoji (a lone surrogate). */
__attribute__((unused)) static channel_span json_text(channel_span value) {
    if (!json_is_string(value)) return (channel_span){0, 0};
    channel_span inside = json_inside(value);
    char *decoded = channel_scratch(inside.len + 4), *to = decoded; /* escapes are never shorter */
    const char *at = inside.at, *end = at + inside.len;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        uint32_t count = json_unescape(&at, end, to);
        if (count == 3 && (uint8_t)to[0] == 0xed && (uint8_t)to[1] >= 0xa0)
            channel_copy(to, "\xef\xbf\xbd", 3);
        to += count;
    }
    return (channel_span){decoded, (uint32_t)(to - decoded)};
}

/* The value that a path of names leads to. */
__attribute__((unused)) static channel_span json_find(channel_span object,
                                                      const char *const *path) {
    for (; *path && object.at; path++) object = json_get(object, text_of(*path));
    return object;
}

/* A block of a prompt. */
__attribute__((unused)) static channel_span text_block(channel_span said) {
    return TEXT_JOIN(CHANNEL_LITERAL("{\"type\":\"text\",\"text\":"), json_quote(said),
                     CHANNEL_LITERAL("}"));
}

#endif
