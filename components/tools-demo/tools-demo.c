/* tools-demo: gives the agent a few tools, from inside the sandbox.
 *
 * When a session is set up it adds one MCP server, reached over ACP, to those declared.
 * The agent's requests to that server come back as `mcp/message`, in two forms: to a
 * connection that `mcp/connect` opened (the Rust SDK, 2.x), or with a `serverId` and a
 * `requestId` and no connection (ACP's schema of October 2026, MCP of 2026-07-28). All
 * else passes as it is. */
#include "message.h"
#include "tools.h"

#define VERSIONS 4
static const channel_span versions[VERSIONS] = {
    CHANNEL_LITERAL("2024-11-05"), CHANNEL_LITERAL("2025-03-26"), CHANNEL_LITERAL("2025-06-18"),
    CHANNEL_LITERAL("2025-11-25")};
#define STATELESS CHANNEL_LITERAL("2026-07-28")
#define META_VERSION CHANNEL_LITERAL("io.modelcontextprotocol/protocolVersion")
#define INFO CHANNEL_LITERAL("{\"name\":\"tools-demo\",\"version\":\"0.1.0\"}")
#define CAPABILITIES CHANNEL_LITERAL("\"capabilities\":{\"tools\":{}}")

static uint32_t connections; /* the number of the one opened last */

/* The setups: which may declare servers, and whether they name their session themselves. */
static const struct {
    channel_span method;
    uint8_t named;
} setups[] = {{CHANNEL_LITERAL("session/new"), 0},
              {CHANNEL_LITERAL("session/load"), 1},
              {CHANNEL_LITERAL("session/resume"), 1},
              {CHANNEL_LITERAL("session/fork"), 0}};

/* Whether a server of this name is declared, in a list or in an object keyed by name. */
static int is_taken(channel_span declared, channel_span name) {
    if (*declared.at == '{') return json_get(declared, name).at != 0;
    const char *at = json_space(declared.at + 1, declared.at + declared.len);
    const char *end = declared.at + declared.len - 1;
    while (at < end) {
        const char *behind = json_skip(at, end);
        if (!behind) return 0;
        if (json_is(json_get((channel_span){at, (uint32_t)(behind - at)}, CHANNEL_LITERAL("name")),
                    name))
            return 1;
        at = json_space(behind, end);
        if (at < end) at = json_space(at + 1, end);
    }
    return 0;
}

static void put_server(const server *of, int keyed) {
    char room[SERVER_TEXT];
    channel_span name = server_name(of->suffix, room);
    if (keyed) {
        channel_put(CHANNEL_LITERAL("\""));
        channel_put(name);
        channel_put(CHANNEL_LITERAL("\":"));
    }
    channel_put(CHANNEL_LITERAL("{\"type\":\"acp\",\"name\":\""));
    channel_put(name);
    channel_put(CHANNEL_LITERAL("\",\"serverId\":\""));
    channel_put(server_id(of, room));
    channel_put(CHANNEL_LITERAL("\"}"));
}

/* Sends a setup on with one more server, behind those that are declared; every other byte
 * stays as it is. */
static void put_setup(channel_span json, channel_span params, channel_span declared,
                      const server *of) {
    const char *end = json.at + json.len, *at;
    channel_begin('s');
    if (declared.at && *declared.at != 'n') {
        at = declared.at + declared.len - 1;
        int first = json_space(declared.at + 1, at) == at;
        channel_put((channel_span){json.at, (uint32_t)(at - json.at)});
        if (!first) channel_put(CHANNEL_LITERAL(","));
        put_server(of, *declared.at == '{');
    } else if (declared.at) { /* null: none */
        channel_put((channel_span){json.at, (uint32_t)(declared.at - json.at)});
        channel_put(CHANNEL_LITERAL("["));
        put_server(of, 0);
        channel_put(CHANNEL_LITERAL("]"));
        at = declared.at + declared.len;
    } else {
        at = params.at + 1;
        channel_put((channel_span){json.at, (uint32_t)(at - json.at)});
        channel_put(CHANNEL_LITERAL("\"mcpServers\":["));
        put_server(of, 0);
        channel_put(*json_space(at, end) == '}' ? CHANNEL_LITERAL("]") : CHANNEL_LITERAL("],"));
    }
    channel_put((channel_span){at, (uint32_t)(end - at)});
    channel_end();
}

/* Adds the server to a setup; 0 if this is none, or one that cannot be read. */
static int on_setup(channel_span json, const message_line *said) {
    uint32_t which = 0, count = sizeof setups / sizeof *setups;
    while (which < count && !json_is(said->method, setups[which].method)) which++;
    if (which == count || !said->id.at || !said->params.at || *said->params.at != '{') return 0;
    channel_span declared = json_get(said->params, CHANNEL_LITERAL("mcpServers"));
    if (declared.at && *declared.at != '[' && *declared.at != '{' && *declared.at != 'n') return 0;
    char room[SERVER_TEXT];
    uint32_t suffix = 1;
    if (declared.at && *declared.at != 'n')
        while (is_taken(declared, server_name(suffix, room))) suffix++;
    channel_span session = {0, 0};
    if (setups[which].named) session = json_get(said->params, CHANNEL_LITERAL("sessionId"));
    put_setup(
        json, said->params, declared,
        servers_add(suffix, said->id, json_is_string(session) ? session : (channel_span){0, 0}));
    return 1;
}

static void on_editor(channel_span json) {
    message_line said = message_read(json);
    if (!said.valid || !said.method.at || !on_setup(json, &said)) channel_forward();
}

/* What a client asks for if we speak it, else our latest. */
static void put_version(channel_span wanted) {
    uint32_t which = 0;
    while (which < VERSIONS - 1 && !json_is(wanted, versions[which])) which++;
    channel_put(versions[which]);
}

static void on_greeting(const call *to) {
    result_begin(to);
    channel_put(CHANNEL_LITERAL("\"protocolVersion\":\""));
    put_version(json_get(to->params, CHANNEL_LITERAL("protocolVersion")));
    channel_put(CHANNEL_LITERAL("\","));
    channel_put(CAPABILITIES);
    channel_put(CHANNEL_LITERAL(",\"serverInfo\":"));
    channel_put(INFO);
    result_end(to);
}

static void on_discover(const call *to) {
    result_begin(to);
    put_lifetime(to);
    channel_put(CHANNEL_LITERAL("\"supportedVersions\":[\""));
    for (uint32_t i = 0; !to->stateless && i < VERSIONS; i++) {
        channel_put(versions[i]);
        channel_put(CHANNEL_LITERAL("\",\""));
    }
    channel_put(STATELESS);
    channel_put(CHANNEL_LITERAL("\"],"));
    channel_put(CAPABILITIES);
    channel_put(CHANNEL_LITERAL(",\"_meta\":{\"io.modelcontextprotocol/serverInfo\":"));
    channel_put(INFO);
    channel_put(CHANNEL_LITERAL("}"));
    result_end(to);
}

/* Takes the revision a request names itself. Refuses one we do not speak; 0 if we do, or
 * if none is named. */
static int refuse_version(call *to) {
    channel_span wanted = json_get(json_get(to->params, CHANNEL_LITERAL("_meta")), META_VERSION);
    to->modern = to->stateless || wanted.at;
    if (!wanted.at || json_is(wanted, STATELESS)) return 0;
    answer_begin(to, CHANNEL_LITERAL("error"));
    channel_put(CHANNEL_LITERAL("{\"code\":-32022,\"message\":\"Unsupported protocol version\","
                        "\"data\":{\"supported\":[\"2026-07-28\"],\"requested\":"));
    channel_put(wanted);
    channel_put(CHANNEL_LITERAL("}}"));
    answer_end(to);
    return 1;
}

static void on_request(call *to, channel_span method) {
    if (refuse_version(to)) return;
    if (json_is(method, CHANNEL_LITERAL("tools/call"))) {
        call_tool(to);
    } else if (json_is(method, CHANNEL_LITERAL("tools/list"))) {
        result_begin(to);
        put_lifetime(to);
        channel_put(CHANNEL_LITERAL("\"tools\":"));
        channel_put(TOOLS);
        result_end(to);
    } else if (json_is(method, CHANNEL_LITERAL("ping"))) {
        answer_begin(to, CHANNEL_LITERAL("result"));
        channel_put(CHANNEL_LITERAL("{}"));
        answer_end(to);
    } else if (json_is(method, CHANNEL_LITERAL("initialize"))) {
        on_greeting(to);
    } else if (json_is(method, CHANNEL_LITERAL("server/discover"))) {
        on_discover(to);
    } else {
        answer_error(to, CHANNEL_LITERAL("-32601"), CHANNEL_LITERAL("tools-demo does not know "),
                     json_is_string(method) ? json_inside(method) : CHANNEL_LITERAL("this"));
    }
}

/* The members that name a server or a connection, in scratch. */
static channel_span address(channel_span first_name, channel_span first, channel_span second_name,
                            channel_span second) {
    uint32_t length = first_name.len + first.len + second_name.len + second.len;
    char *at = channel_scratch(length), *end = at;
    const channel_span parts[] = {first_name, first, second_name, second};
    for (uint32_t i = 0; i < 4; i++) {
        channel_copy(end, parts[i].at, parts[i].len);
        end += parts[i].len;
    }
    return (channel_span){at, length};
}

/* A message of MCP to one of our servers; 0 if it is for somebody else's. */
static int on_message(const message_line *said) {
    channel_span connection = json_get(said->params, CHANNEL_LITERAL("connectionId"));
    channel_span id = json_get(said->params, CHANNEL_LITERAL("serverId"));
    channel_span request = json_get(said->params, CHANNEL_LITERAL("requestId"));
    call to = {.id = said->id, .params = json_get(said->params, CHANNEL_LITERAL("params"))};
    if (connection.at) {
        to.from = server_find(connection, 1);
        to.address = address(CHANNEL_LITERAL("\"connectionId\":"), connection, CHANNEL_LITERAL(""),
                             CHANNEL_LITERAL(""));
    } else if (request.at) {
        to.stateless = 1;
        to.from = server_find(id, 0);
        to.address = address(CHANNEL_LITERAL("\"serverId\":"), id,
                             CHANNEL_LITERAL(",\"requestId\":"), request);
    }
    if (!to.from) return 0;
    /* Notifications want nothing of us: no call is open when the next line comes. */
    if (said->id.at) on_request(&to, json_get(said->params, CHANNEL_LITERAL("method")));
    return 1;
}

static int on_connect(const message_line *said) {
    const server *of = server_find(json_get(said->params, CHANNEL_LITERAL("serverId")), 0);
    if (!of || !said->id.at) return 0;
    char room[SERVER_TEXT];
    channel_begin('s');
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"));
    channel_put(said->id);
    channel_put(CHANNEL_LITERAL(",\"result\":{\"connectionId\":\""));
    channel_put(server_id(of, room));
    channel_put(CHANNEL_LITERAL("."));
    channel_put_u32(++connections);
    channel_put(CHANNEL_LITERAL("\"}}"));
    channel_end();
    return 1;
}

static int on_disconnect(const message_line *said) {
    if (!server_find(json_get(said->params, CHANNEL_LITERAL("connectionId")), 1)) return 0;
    if (!said->id.at) return 1;
    channel_begin('s');
    channel_put(CHANNEL_LITERAL("{\"jsonrpc\":\"2.0\",\"id\":"));
    channel_put(said->id);
    channel_put(CHANNEL_LITERAL(",\"result\":{}}"));
    channel_end();
    return 1;
}

static void on_agent(channel_span json) {
    message_line said = message_read(json);
    int done = 0;
    if (said.valid && !said.method.at) servers_answered(said.id, said.result);
    else if (message_calls(&said, CHANNEL_LITERAL("mcp/message"))) done = on_message(&said);
    else if (message_calls(&said, CHANNEL_LITERAL("mcp/connect"))) done = on_connect(&said);
    else if (message_calls(&said, CHANNEL_LITERAL("mcp/disconnect"))) done = on_disconnect(&said);
    if (!done) channel_forward();
}

static void channel_on_line(char side, channel_span json) {
    if (side == 'p') {
        on_editor(json);
    } else if (side == 's') {
        on_agent(json);
    } else {
        message_line said = message_read(json);
        if (said.valid && said.method.at && said.id.at) message_refuse(&said);
    }
}
