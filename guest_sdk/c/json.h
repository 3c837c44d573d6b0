/* json.h: reading JSON where it lies, without allocating.
 *
 * Values are spans of the text itself. Scanning validates the grammar of RFC 8259
 * (not UTF-8, which passes through as it is), so a span that came from here is a
 * whole, valid value and can be spliced into other JSON byte for byte.
 */
#ifndef JSON_H
#define JSON_H

#include "channel.h"

/* Deeper nesting than this counts as invalid; hosts limit it to far less. */
#define JSON_DEPTH 4096u

/* Kept as calls: inlined at each use they would double a proxy's size. */
#define JSON_CALL __attribute__((noinline))

static inline const char *json_space(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
    return at;
}

static inline int json_hex(char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    digit |= 32;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Which of sixteen bytes are not plain inside a string. */
static inline v128_t json_special(const char *at) {
    v128_t bytes = wasm_v128_load(at);
    return wasm_v128_or(wasm_v128_or(wasm_i8x16_eq(bytes, wasm_i8x16_splat('"')),
                                     wasm_i8x16_eq(bytes, wasm_i8x16_splat('\\'))),
                        wasm_u8x16_lt(bytes, wasm_i8x16_splat(' ')));
}

/* The first byte of a string's inside that is not plain: quote, backslash or a
 * control character; `end` if there is none. Long stretches go by 64 bytes, since
 * hosts that limit time pay for every turn of a loop. */
static inline const char *json_plain(const char *at, const char *end) {
    for (; end - at >= 64; at += 64)
        if (wasm_v128_any_true(
                wasm_v128_or(wasm_v128_or(json_special(at), json_special(at + 16)),
                             wasm_v128_or(json_special(at + 32), json_special(at + 48)))))
            break;
    for (; end - at >= 16; at += 16) {
        uint32_t special = wasm_i8x16_bitmask(json_special(at));
        if (special) return at + __builtin_ctz(special);
    }
    while (at < end && *at != '"' && *at != '\\' && (uint8_t)*at >= ' ') at++;
    return at;
}

/* Behind the string that starts at `at` (at its quote); 0 if invalid. */
JSON_CALL static const char *json_skip_string(const char *at, const char *end) {
    if (at >= end || *at++ != '"') return 0;
    for (;;) {
        at = json_plain(at, end);
        if (at >= end || (uint8_t)*at < ' ') return 0;
        if (*at++ == '"') return at;
        if (at >= end) return 0;
        switch (*at++) {
        case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
            break;
        case 'u':
            if (end - at < 4) return 0;
            for (int i = 0; i < 4; i++)
                if (json_hex(*at++) < 0) return 0;
            break;
        default:
            return 0;
        }
    }
}

static inline const char *json_digits(const char *at, const char *end) {
    const char *start = at;
    while (at < end && *at >= '0' && *at <= '9') at++;
    return at == start ? 0 : at;
}

static const char *json_skip_number(const char *at, const char *end) {
    if (*at == '-') at++;
    if (at < end && *at == '0') at++;
    else at = json_digits(at, end);
    if (at && at < end && *at == '.') at = json_digits(at + 1, end);
    if (at && at < end && (*at | 32) == 'e') {
        at++;
        if (at < end && (*at == '+' || *at == '-')) at++;
        at = json_digits(at, end);
    }
    return at;
}

static inline const char *json_skip_word(const char *at, const char *end, channel_span word) {
    if ((uint32_t)(end - at) < word.len) return 0;
    for (uint32_t i = 0; i < word.len; i++)
        if (at[i] != word.at[i]) return 0;
    return at + word.len;
}

static inline const char *json_skip_scalar(const char *at, const char *end) {
    switch (*at) {
    case '"': return json_skip_string(at, end);
    case 't': return json_skip_word(at, end, CHANNEL_LITERAL("true"));
    case 'f': return json_skip_word(at, end, CHANNEL_LITERAL("false"));
    case 'n': return json_skip_word(at, end, CHANNEL_LITERAL("null"));
    default: return json_skip_number(at, end);
    }
}

/* A member's name and colon; behind them, 0 if invalid. */
static inline const char *json_skip_name(const char *at, const char *end) {
    at = json_skip_string(json_space(at, end), end);
    if (!at) return 0;
    at = json_space(at, end);
    return at < end && *at == ':' ? at + 1 : 0;
}

/* Behind the value at `at` (space before it allowed); 0 if it is not valid JSON.
 * Nesting is kept as one bit a level, so no input can exhaust the stack. */
JSON_CALL static const char *json_skip(const char *at, const char *end) {
    static uint8_t is_object[JSON_DEPTH / 8];
    uint32_t depth = 0;
    for (;;) {
        at = json_space(at, end);
        if (at >= end) return 0;
        char first = *at;
        if (first == '{' || first == '[') {
            at = json_space(at + 1, end);
            if (at >= end) return 0;
            if (*at != first + 2) { /* '}' and ']' are two behind their openers */
                if (depth == JSON_DEPTH) return 0;
                uint8_t bit = (uint8_t)(1u << (depth & 7));
                if (first == '{') is_object[depth >> 3] |= bit;
                else is_object[depth >> 3] &= (uint8_t)~bit;
                depth++;
                if (first == '{' && !(at = json_skip_name(at, end))) return 0;
                continue;
            }
            at++;
        } else if (!(at = json_skip_scalar(at, end))) {
            return 0;
        }
        for (;;) { /* behind a value: close what it closes, or go on to the next */
            if (!depth) return at;
            uint32_t in_object = is_object[(depth - 1) >> 3] >> ((depth - 1) & 7) & 1;
            at = json_space(at, end);
            if (at >= end) return 0;
            char mark = *at++;
            if (mark == ',') {
                if (in_object && !(at = json_skip_name(at, end))) return 0;
                break;
            }
            if (mark != (in_object ? '}' : ']')) return 0;
            depth--;
        }
    }
}

/* Adds a text to the line being sent, with one more element at the front of one of
 * its arrays. `opening` is the offset of what follows the array's bracket; all other
 * bytes stay as they are. */
__attribute__((unused)) static void json_put_prepended(channel_span json, uint32_t opening,
                                                       channel_span element) {
    const char *rest = json.at + opening, *end = json.at + json.len;
    channel_put((channel_span){json.at, opening});
    channel_put(element);
    if (*json_space(rest, end) != ']') channel_put(CHANNEL_LITERAL(","));
    channel_put((channel_span){rest, (uint32_t)(end - rest)});
}

/* What is inside a string value's quotes, escapes and all. */
static inline channel_span json_inside(channel_span string) {
    return (channel_span){string.at + 1, string.len - 2};
}

static inline int json_is_string(channel_span value) { return value.at && *value.at == '"'; }

static uint32_t json_hex4(const char *at) {
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) unit = unit << 4 | (uint32_t)json_hex(at[i]);
    return unit;
}

/* Decodes the escape behind a backslash at *at into UTF-8, moving *at behind it;
 * answers the number of bytes. A lone surrogate becomes three bytes (WTF-8), equal
 * to no valid text. */
JSON_CALL static uint32_t json_unescape(const char **at, const char *end, char utf8[4]) {
    static const char names[] = "bfnrt", values[] = "\b\f\n\r\t";
    char name = *(*at)++;
    if (name != 'u') {
        utf8[0] = name; /* the quote, the backslash and the slash name themselves */
        for (int i = 0; i < 5; i++)
            if (names[i] == name) utf8[0] = values[i];
        return 1;
    }
    uint32_t code = json_hex4(*at);
    *at += 4;
    if (code >> 10 == 0x36 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        uint32_t low = json_hex4(*at + 2);
        if (low >> 10 == 0x37) {
            code = 0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff);
            *at += 6;
        }
    }
    uint32_t extra = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    for (uint32_t i = extra; i; i--, code >>= 6) utf8[i] = (char)(0x80 | (code & 0x3f));
    utf8[0] = (char)(extra ? (0xff00u >> (extra + 1) & 0xf0) | code : code);
    return extra + 1;
}

/* Whether a valid string value, its escapes decoded, is this UTF-8 text. */
JSON_CALL static int json_is(channel_span value, channel_span text) {
    if (!json_is_string(value)) return 0;
    channel_span inside = json_inside(value);
    const char *at = inside.at, *end = at + inside.len;
    uint32_t done = 0;
    while (at < end) {
        char utf8[4];
        uint32_t count = 1;
        char byte = *at++;
        if (byte == '\\') count = json_unescape(&at, end, utf8);
        else utf8[0] = byte;
        for (uint32_t i = 0; i < count; i++, done++)
            if (done >= text.len || text.at[done] != utf8[i]) return 0;
    }
    return done == text.len;
}

/* Whether two values are the same text, or strings that are once decoded. */
__attribute__((unused)) JSON_CALL static int json_same(channel_span one, channel_span other) {
    channel_span in[] = {one, other};
    char utf8[2][4];
    uint32_t count[] = {0, 0}, done[] = {0, 0};
    if (json_is_string(one) != json_is_string(other)) return 0;
    for (;;) {
        for (int i = 0; i < 2; i++) {
            if (done[i] < count[i] || !in[i].len) continue;
            const char *at = in[i].at, *end = at + in[i].len;
            count[i] = 1, done[i] = 0;
            utf8[i][0] = *at++;
            if (utf8[i][0] == '\\') count[i] = json_unescape(&at, end, utf8[i]);
            in[i] = (channel_span){at, (uint32_t)(end - at)};
        }
        if (done[0] == count[0] || done[1] == count[1])
            return done[0] == count[0] && done[1] == count[1];
        if (utf8[0][done[0]++] != utf8[1][done[1]++]) return 0;
    }
}

/* Walks the members of an object:
 *
 *     json_members walk = json_walk(object);
 *     while (json_next(&walk)) … walk.name, walk.value …
 *
 * Afterwards walk.valid tells whether the whole was an object and valid. */
typedef struct {
    channel_span name; /* a string value, with its quotes */
    channel_span value;
    const char *at, *end;
    uint8_t first, valid;
} json_members;

static json_members json_walk(channel_span object) {
    json_members walk = {.at = object.at, .end = object.at + object.len};
    walk.at = json_space(walk.at, walk.end);
    if (walk.at < walk.end && *walk.at == '{') walk.at++, walk.first = 1;
    else walk.at = walk.end;
    return walk;
}

JSON_CALL static int json_next(json_members *walk) {
    const char *end = walk->end, *at = json_space(walk->at, end);
    walk->at = end; /* unless a member follows, the walk is over */
    if (at >= end) return 0;
    char mark = *at;
    if (mark == '}') {
        walk->valid = json_space(at + 1, end) == end;
        return 0;
    }
    if (!walk->first) {
        if (mark != ',') return 0;
        at = json_space(at + 1, end);
    }
    walk->first = 0;
    const char *behind = json_skip_string(at, end);
    if (!behind) return 0;
    walk->name = (channel_span){at, (uint32_t)(behind - at)};
    at = json_space(behind, end);
    if (at >= end || *at != ':') return 0;
    at = json_space(at + 1, end);
    behind = json_skip(at, end);
    if (!behind) return 0;
    walk->value = (channel_span){at, (uint32_t)(behind - at)};
    walk->at = behind;
    return 1;
}

/* The value of a member by its (decoded) name, the last one if it is repeated, as
 * every common parser has it; absent if there is none or this is no valid object. */
__attribute__((unused)) static channel_span json_get(channel_span object, channel_span name) {
    channel_span found = {0, 0};
    if (!object.at) return found;
    json_members walk = json_walk(object);
    while (json_next(&walk))
        if (json_is(walk.name, name)) found = walk.value;
    return walk.valid ? found : (channel_span){0, 0};
}

#endif
