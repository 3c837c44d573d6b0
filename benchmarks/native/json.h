/* Just enough JSON to route a line: where a member's value starts and ends.
 *
 * Values are spans of the line and are copied verbatim, so ids, params and
 * results keep their bytes. Only members of the object asked about are looked
 * at; a "method" inside params or inside a string is never taken for the
 * message's own. Keys are compared as written (a key spelt with escapes is not
 * found), and a line is not validated: callers treat what does not scan as
 * absent. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    const char *p; /* NULL: absent */
    size_t n;
} span;

struct message {
    span id, method, params, result, error;
};

static inline bool span_is(span s, const char *text) {
    size_t n = strlen(text);
    return s.p != NULL && s.n == n && memcmp(s.p, text, n) == 0;
}

static inline const char *json_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\r' || *p == '\n')) p++;
    return p;
}

/* p stands behind an opening quote; the result behind the closing one, or NULL.
 * memchr makes a megabyte of text cost one pass at memory speed. */
static inline const char *json_string(const char *p, const char *end) {
    const char *start = p;
    while (p < end) {
        const char *quote = memchr(p, '"', (size_t)(end - p));
        if (quote == NULL) return NULL;
        const char *back = quote;
        while (back > start && back[-1] == '\\') back--;
        if ((quote - back) % 2 == 0) return quote + 1;
        p = quote + 1;
    }
    return NULL;
}

/* The end of the value that starts at p, or NULL. */
static inline const char *json_value(const char *p, const char *end) {
    if (p >= end) return NULL;
    if (*p == '"') return json_string(p + 1, end);
    if (*p != '{' && *p != '[') {
        const char *start = p;
        while (p < end && *p != ',' && *p != '}' && *p != ']' && *p != ' ' && *p != '\t' &&
               *p != '\r' && *p != '\n')
            p++;
        return p > start ? p : NULL;
    }
    int depth = 0;
    while (p < end) {
        switch (*p++) {
        case '"':
            if ((p = json_string(p, end)) == NULL) return NULL;
            break;
        case '{':
        case '[':
            depth++;
            break;
        case '}':
        case ']':
            if (--depth == 0) return p;
            break;
        default:
            break;
        }
    }
    return NULL;
}

/* Steps to the next member. *at starts at the object's '{'; false at its end
 * or where the text stops making sense. */
static inline bool json_next(const char **at, const char *end, span *key, span *value) {
    const char *p = json_space(*at, end);
    if (p >= end || (*p != '{' && *p != ',')) return false;
    p = json_space(p + 1, end);
    if (p >= end || *p != '"') return false;
    const char *after = json_string(p + 1, end);
    if (after == NULL) return false;
    key->p = p + 1;
    key->n = (size_t)(after - p) - 2;
    p = json_space(after, end);
    if (p >= end || *p != ':') return false;
    p = json_space(p + 1, end);
    after = json_value(p, end);
    if (after == NULL) return false;
    value->p = p;
    value->n = (size_t)(after - p);
    *at = json_space(after, end);
    return true;
}

/* The raw value of one member of an object; absent when there is none. */
static inline span json_member(span object, const char *name) {
    span key, value, found = {NULL, 0};
    if (object.p == NULL || object.n == 0 || *object.p != '{') return found;
    const char *at = object.p;
    while (json_next(&at, object.p + object.n, &key, &value))
        if (span_is(key, name)) found = value;
    return found;
}

/* The last element of an array, and how many there are; absent when empty or no array. */
static inline span json_last(span array, long *count) {
    span found = {NULL, 0};
    *count = 0;
    if (array.p == NULL || array.n < 2 || *array.p != '[') return found;
    const char *end = array.p + array.n;
    const char *p = json_space(array.p + 1, end);
    while (p < end && *p != ']') {
        const char *after = json_value(p, end);
        if (after == NULL) break;
        found.p = p;
        found.n = (size_t)(after - p);
        ++*count;
        p = json_space(after, end);
        if (p < end && *p == ',') p = json_space(p + 1, end);
    }
    return found;
}

/* A string's inside, escapes and all; absent for anything but a string. */
static inline span json_text(span value) {
    span text = {NULL, 0};
    if (value.p == NULL || value.n < 2 || *value.p != '"') return text;
    text.p = value.p + 1;
    text.n = value.n - 2;
    return text;
}

/* False when the line is no object. method is the text inside its quotes. */
static inline bool json_message(span line, struct message *m) {
    const char *end = line.p + line.n;
    const char *at = json_space(line.p, end);
    span key, value;
    memset(m, 0, sizeof *m);
    if (at >= end || *at != '{') return false;
    while (json_next(&at, end, &key, &value)) {
        if (span_is(key, "id")) m->id = value;
        else if (span_is(key, "method")) m->method = json_text(value);
        else if (span_is(key, "params")) m->params = value;
        else if (span_is(key, "result")) m->result = value;
        else if (span_is(key, "error")) m->error = value;
    }
    return true;
}

#endif
