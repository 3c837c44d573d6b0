"""Attacks by the parts of any message: its JSON, its method, its session, its metadata."""

from collections.abc import Iterator

from msgspec import UNSET

from tests.core.test_guards.attack import Attack, answers, makes_up, passes_on
from tests.core.test_guards.samples import OPTIONS, SETUP


def ambiguous_json() -> Iterator[Attack]:
    """JSON that is read in two ways."""
    for what, after in {
        "two commands": '{"cwd":"/w","mcpServers":[{"name":"x","command":"a","command":"b"}]}',
        "two types": '{"mcpServers":[{"type":"acp","name":"x","serverId":"m","type":"http"}]}',
        "an escaped twin": '{"cwd":"/w","mcpServers":[],"_meta":{"a.b/c":1,"\\u0061.b/c":2}}',
        "two lists": '{"cwd":"/w","mcpServers":[],"mcpServers":[{"command":"sh","name":"x"}]}',
        "half a surrogate pair in a name": '{"cwd":"/w","mcpServers":[],"_meta":{"a.b/\\ud800":1}}',
        "an array": "[]",
        "a text": '"session"',
        "a number": "1",
    }.items():
        yield passes_on("duplicate-keys", what, "session/new", SETUP, after)
    yield passes_on(
        "duplicate-keys",
        "deep inside a block",
        "session/prompt",
        "{}",
        '{"prompt":[{"a":1,"a":2}]}',
    )
    yield passes_on("duplicate-keys", "no JSON", "_x/y", "{}", '{"a":NaN}')
    yield passes_on("duplicate-keys", "what came was no object", "_x/y", "[1]", '{"a":1}')
    yield passes_on("duplicate-keys", "what came was ambiguous", "_x/y", '{"a":1,"a":2}', '{"a":1}')
    yield makes_up("duplicate-keys", "twice", "_x/y", '{"a":{"b":[{"c":1,"c":1}]}}')
    yield makes_up("duplicate-keys", "an array", "_x/y", "[]")
    yield answers("duplicate-keys", "twice", "_x/y", '{"a":1,"a":2}')
    yield answers("duplicate-keys", "twice, relayed once", "_x/y", '{"a":1,"a":2}', '{"a":1}')


def spellings() -> Iterator[Attack]:
    """Methods that look like others."""
    for method in (
        "FS/write_text_file",
        "Fs/new_thing",
        "fs\u2215write_text_file",
        "\uff46\uff53/write_text_file",
        "f\u0455/write_text_file",
        "Session/Request_Permission",
        "session/requestPermission",
        "session/request_permission ",
        " session/new",
        "session/\u200bnew",
        "/session/new",
        "session//new",
        "session\\new",
        "session/new\x00",
        "_session/new",
        "Initialize",
        "PROXY/successor",
        "Proxy/Something",
        "_Conductor/clock",
        "$/Cancel_Request",
        "",
        "x" * 300,
    ):
        yield makes_up("method-spelling", f"{method[:40]!a}", method)


def methods_of_others() -> Iterator[Attack]:
    """Methods that are not for components."""
    for method in (
        "initialize",
        "proxy/initialize",
        "_proxy/initialize",
        "proxy/successor",
        "_proxy/successor",
        "_proxy/successor/request",
        "_proxy/successor/send/request",
        "_proxy/anything",
        "_conductor/clock",
        "_scp/proxy",
    ):
        yield makes_up("conductor-methods", method, method)
    for method in ("session/teleport", "workspace/run", "$/progress", "x"):
        yield makes_up("unknown-methods", method, method)
    for method in (
        "mcp/",
        "mcp/add",
        "mcp/Message",
        "mcp/servers/set",
        "mcp/message/../../fs/write_text_file",
        "_mcp/oauth/login",
        "_mcp/",
    ):
        own = '{"serverId":"mine","command":"sh"}'
        yield makes_up("unknown-methods", f"{method} with an id of its own", method, own)


def sessions() -> Iterator[Attack]:
    """Messages steered into another session."""
    for method in ("session/prompt", "session/update", "_x/y"):
        yield passes_on("session-target", method, method, '{"sessionId":"a"}', '{"sessionId":"b"}')
    yield passes_on("session-target", "gone", "session/prompt", '{"sessionId":"a"}', "{}")
    yield passes_on(
        "session-target", "gone altogether", "session/prompt", '{"sessionId":"a"}', UNSET
    )
    yield passes_on("session-target", "added", "session/prompt", "{}", '{"sessionId":"a"}')
    yield passes_on(
        "session-target",
        "an older name",
        "_x/y",
        '{"session_id":"a"}',
        '{"session_id":"b"}',
    )
    yield passes_on(
        "session-target",
        "another case beside it",
        "_x/y",
        '{"sessionId":"a"}',
        '{"sessionId":"a","SessionID":"b"}',
    )
    yield makes_up(
        "session-target",
        "two names of it",
        "session/prompt",
        '{"sessionId":"a","session_id":"b","prompt":[]}',
    )
    yield passes_on("session-target", "a look-alike", "_x/y", "{}", '{"sessi\\u2134nId":"b"}')
    yield passes_on(
        "session-target", "a number respelled", "_x/y", '{"sessionId":1.10}', '{"sessionId":1.1}'
    )
    yield answers(
        "session-target",
        "a new session's id",
        "session/new",
        '{"sessionId":"b"}',
        '{"sessionId":"a"}',
    )
    yield answers("session-target", "no object", "session/fork", "null", '{"sessionId":"a"}')
    yield answers("session-target", "no object, without an id", "session/load", "[]", "{}")
    yield answers(
        "session-target", "a look-alike beside it", "_x/y", '{"a":1,"META":{}}', '{"a":1}'
    )
    yield makes_up("session-target", "a look-alike", "_x/y", '{"session-id":"a"}')


def metadata() -> Iterator[Attack]:
    """`_meta` of others, and such as agents obey."""
    for what, before, after in (
        ("options of an agent", '{"cwd":"/w"}', f'{{"cwd":"/w","_meta":{OPTIONS}}}'),
        ("an escaped name", "{}", f'{{"_met\\u0061":{OPTIONS}}}'),
        ("somebody's value", '{"_meta":{"a.b/c":1}}', '{"_meta":{"a.b/c":2}}'),
        ("a number respelled", '{"_meta":{"a.b/c":1.10}}', '{"_meta":{"a.b/c":1.1}}'),
        ("somebody's key", '{"_meta":{"a":1,"b":2}}', '{"_meta":{"a":1}}'),
        ("all of it", '{"_meta":{"a":1}}', "{}"),
        ("all of it, by null", '{"_meta":{"a":1}}', '{"_meta":null}'),
        ("a text instead", '{"_meta":{}}', '{"_meta":"x"}'),
        ("for a text", '{"_meta":"x"}', '{"_meta":{}}'),
        ("trace context", "{}", '{"_meta":{"traceparent":"00-1-1-00"}}'),
        ("a reserved domain", "{}", '{"_meta":{"io.modelcontextprotocol/x":1}}'),
        ("another case", '{"_meta":{"a.b/c":1}}', '{"_meta":{"a.b/c":1,"A.b/c":2}}'),
        ("no domain", "{}", '{"_meta":{"x/y":1}}'),
        ("a very long key", "{}", '{"_meta":{"a.b/%s":1}}' % ("x" * 600)),
    ):
        yield passes_on("meta", what, "session/new", before, after)
        yield passes_on("meta", f"of an extension, {what}", "_x/y", before, after)
    yield answers(
        "meta",
        "a result's",
        "session/prompt",
        '{"stopReason":"x"}',
        '{"stopReason":"x","_meta":{"a":1}}',
    )
    yield answers("meta", "a result of its own", "_x/y", '{"_meta":{"claudeCode":1}}')
    yield makes_up("meta", "its own message", "session/prompt", f'{{"_meta":{OPTIONS}}}')
    yield passes_on(
        "meta",
        "of a tool call",
        "session/update",
        '{"update":{"sessionUpdate":"tool_call","toolCallId":"t"}}',
        '{"update":{"sessionUpdate":"tool_call","toolCallId":"t","_meta":{"terminal_info":{}}}}',
    )
    yield makes_up(
        "meta",
        "of an update",
        "session/update",
        '{"update":{"sessionUpdate":"plan","_meta":{"terminal_info":{}}}}',
    )
    yield passes_on(
        "meta",
        "of a capability",
        "initialize",
        '{"clientCapabilities":{"fs":{"_meta":{"a":1}}}}',
        '{"clientCapabilities":{"fs":{"_meta":{"a":2}}}}',
    )
    yield passes_on(
        "meta",
        "of capabilities altogether",
        "initialize",
        '{"capabilities":{"_meta":{"terminal-auth":true}}}',
        "{}",
    )
    yield answers(
        "meta",
        "of an agent's capabilities",
        "initialize",
        '{"agentCapabilities":{"_meta":{"x":true}}}',
        '{"agentCapabilities":{}}',
    )
    yield passes_on(
        "meta",
        "of an added server",
        "session/new",
        SETUP,
        '{"cwd":"/w","mcpServers":[{"type":"acp","name":"x","serverId":"m","_meta":{"command":"sh"}}]}',
    )
