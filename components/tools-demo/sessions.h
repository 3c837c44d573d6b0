/* sessions.h: which server was declared for which session.
 *
 * Each setup of a session declares a server with an id of its own, NAME:NUMBER. Which
 * session that is becomes known when the answer to the setup passes. The last SESSIONS
 * of them are remembered. */
#ifndef SESSIONS_H
#define SESSIONS_H

#include "json.h"

#define SESSIONS 256
#define ID_BYTES 96
#define SESSION_BYTES 256
#define NAME CHANNEL_LITERAL("tools-demo")

/* One server. Texts are kept as they stood on the wire, quotes and escapes too. */
typedef struct {
    uint32_t number;   /* of its id; 0: none was declared here */
    uint32_t suffix;   /* of its name, above 1 where the name alone was taken */
    uint32_t asked;    /* length of `setup`, 0 when its answer has passed */
    uint32_t known;    /* length of `session`, 0 while it is not known */
    char setup[ID_BYTES];
    char session[SESSION_BYTES];
} server;

static struct {
    server at[SESSIONS];
    uint32_t last; /* number of the server declared last */
} servers;

static inline int same_bytes(const char *a, const char *b, uint32_t length) {
    for (uint32_t i = 0; i < length; i++)
        if (a[i] != b[i]) return 0;
    return 1;
}

/* Keeps a text in one of a server's members; its length, 0 if it does not fit. */
static uint32_t keep_text(char *to, uint32_t room, channel_span text) {
    if (!text.at || text.len > room) return 0;
    channel_copy(to, text.at, text.len);
    return text.len;
}

/* Remembers a setup on its way to the agent. `session` may be absent. */
static server *servers_add(uint32_t suffix, channel_span setup, channel_span session) {
    uint32_t number = ++servers.last;
    if (!number) number = ++servers.last; /* 0 stands for none */
    server *made = &servers.at[number % SESSIONS];
    *made = (server){.number = number, .suffix = suffix};
    made->asked = keep_text(made->setup, ID_BYTES, setup);
    made->known = keep_text(made->session, SESSION_BYTES, session);
    return made;
}

/* The answer to a request passes: if that was a setup, its session is known now. */
static void servers_answered(channel_span id, channel_span result) {
    if (!id.at) return;
    for (uint32_t i = 0; i < SESSIONS; i++) {
        server *each = &servers.at[i];
        if (each->asked != id.len || !same_bytes(each->setup, id.at, id.len)) continue;
        each->asked = 0;
        channel_span session = json_get(result, CHANNEL_LITERAL("sessionId"));
        if (json_is_string(session))
            each->known = keep_text(each->session, SESSION_BYTES, session);
        return;
    }
}

/* Writes a number; the end of it. */
static char *write_u32(char *at, uint32_t value) {
    char digits[10];
    uint32_t count = 0;
    do digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count) *at++ = digits[--count];
    return at;
}

/* Room for a name, and for an id with two numbers behind it. */
#define SERVER_TEXT 64

/* A server's name into `room`. */
static channel_span server_name(uint32_t suffix, char *room) {
    channel_copy(room, NAME.at, NAME.len);
    char *end = room + NAME.len;
    if (suffix > 1) {
        *end++ = '-';
        end = write_u32(end, suffix);
    }
    return (channel_span){room, (uint32_t)(end - room)};
}

/* A server's id into `room`. */
static channel_span server_id(const server *of, char *room) {
    char *end = room + server_name(of->suffix, room).len;
    *end++ = ':';
    return (channel_span){room, (uint32_t)(write_u32(end, of->number) - room)};
}

/* The server that an id (a string value) names, or with `connection` a connection to it,
 * whose id is the server's with a point and a number behind it; 0 if it is none of ours. */
static const server *server_find(channel_span id, int connection) {
    if (!json_is_string(id)) return 0;
    channel_span inside = json_inside(id);
    const char *at = inside.at, *end = at + inside.len;
    while (at < end && *at != ':') at++;
    uint32_t number = 0;
    const char *digits = at < end ? at + 1 : end;
    for (at = digits; at < end && *at >= '0' && *at <= '9'; at++)
        number = number * 10 + (uint32_t)(*at - '0');
    const server *found = &servers.at[number % SESSIONS];
    if (!number || found->number != number) return 0;
    char room[SERVER_TEXT];
    channel_span wanted = server_id(found, room);
    if (connection) {
        if (at >= end || *at != '.' || at + 1 == end) return 0;
        for (const char *rest = at + 1; rest < end; rest++)
            if (*rest < '0' || *rest > '9') return 0;
        end = at;
    }
    uint32_t length = (uint32_t)(end - inside.at);
    return length == wanted.len && same_bytes(inside.at, wanted.at, length) ? found : 0;
}

#endif
