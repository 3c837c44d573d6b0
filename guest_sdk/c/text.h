/* text.h: texts and JSON put together, in memory that lasts for one delivery. */
#ifndef TEXT_H
#define TEXT_H

#include "json.h"

/* Texts one behind the other: JOIN(LITERAL("{\"n\":"), number, LITERAL("}")). */
#define JOIN(...) \
    text_join((const span[]){__VA_ARGS__}, sizeof((const span[]){__VA_ARGS__}) / sizeof(span))

/* A path of names, from the outermost inwards: PATH("update", "content"). */
#define PATH(...) ((const char *const[]){__VA_ARGS__, 0})

/* A C string. */
static span text_of(const char *string) {
    u32 length = 0;
    while (string[length]) length++;
    return (span){string, length};
}

__attribute__((unused)) static int text_equal(span one, span other) {
    if (one.len != other.len) return 0;
    for (u32 i = 0; i < one.len; i++)
        if (one.at[i] != other.at[i]) return 0;
    return 1;
}

__attribute__((unused)) static span text_join(const span *parts, u32 count) {
    u32 length = 0;
    for (u32 i = 0; i < count; i++) length += parts[i].len;
    char *joined = channel_scratch(length), *at = joined;
    for (u32 i = 0; i < count; at += parts[i++].len) channel_copy(at, parts[i].at, parts[i].len);
    return (span){joined, length};
}

/* A number in decimal. */
__attribute__((unused)) static span text_number(i32 number) {
    char digits[11];
    u32 at = sizeof digits, value = number < 0 ? -(u32)number : (u32)number;
    do digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    if (number < 0) digits[--at] = '-';
    return JOIN({digits + at, (u32)sizeof digits - at});
}

/* A text as a JSON string; escapes only what has to be. */
__attribute__((unused)) static span json_quote(span text) {
    static const char names[] = "\"\\bfnrt", values[] = "\"\\\b\f\n\r\t";
    static const char hex[] = "0123456789abcdef";
    channel_region *scratch = &channel.region[REGION_SCRATCH];
    char *quoted = channel_scratch(2), *to;
    const char *at = text.at, *end = at + text.len;
    u32 length = 1;
    quoted[0] = '"';
    while (at < end) {
        const char *plain = json_plain(at, end);
        u32 more = (u32)(plain - at);
        to = channel_scratch(more + 6) - 1; /* pieces adjoin; what is too much is given back */
        channel_copy(to, at, more);
        to += more;
        if (plain < end) {
            int i = 0;
            while (values[i] && values[i] != *plain) i++;
            u8 byte = (u8)*plain;
            to[0] = '\\';
            to[1] = names[i] ? names[i] : 'u';
            if (!names[i]) to[2] = to[3] = '0', to[4] = hex[byte >> 4], to[5] = hex[byte & 15];
            more += names[i] ? 2 : 6;
            plain++;
        }
        length += more;
        scratch->used = (u32)(quoted - scratch->base) + length + 1;
        at = plain;
    }
    quoted[length] = '"';
    return (span){quoted, length + 1};
}

/* A string value decoded; absent if it is none. U+FFFD stands for half an emoji (a lone surrogate). */
__attribute__((unused)) static span json_text(span value) {
    if (!json_is_string(value)) return (span){0, 0};
    span inside = json_inside(value);
    char *decoded = channel_scratch(inside.len + 4), *to = decoded; /* escapes are never shorter */
    const char *at = inside.at, *end = at + inside.len;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        at++;
        u32 count = json_unescape(&at, end, to);
        if (count == 3 && (u8)to[0] == 0xed && (u8)to[1] >= 0xa0) channel_copy(to, "\xef\xbf\xbd", 3);
        to += count;
    }
    return (span){decoded, (u32)(to - decoded)};
}

/* The value that a path of names leads to. */
__attribute__((unused)) static span json_find(span object, const char *const *path) {
    for (; *path && object.at; path++) object = json_get(object, text_of(*path));
    return object;
}

/* A block of a prompt. */
__attribute__((unused)) static span text_block(span said) {
    return JOIN(LITERAL("{\"type\":\"text\",\"text\":"), json_quote(said), LITERAL("}"));
}

#endif
