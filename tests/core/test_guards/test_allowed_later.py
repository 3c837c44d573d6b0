"""Acts that the guards leave be, in `initialize`, session updates and MCP messages."""

import json
from typing import Final

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from conductor.core.guards import (
    Context,
    answered,
    connected,
    declared,
    forwarded,
)
from conductor.core.guards.names import CONVERSATIONS
from conductor.core.guards.reading import canonical
from tests.core.test_guards.attack import CONTEXT, PLAIN, granted
from tests.core.test_guards.routes import SETUPS, may_answer, may_send, passes
from tests.core.test_guards.samples import (
    AGENT,
    AGENT2,
    CALL,
    HELLO,
    HELLO2,
    HTTP,
    MINE,
    STDIO,
    THEIRS,
    USES,
    Object,
)


def updated(before: object, after: object, context: Context = PLAIN) -> bool:
    """Whether one session update may be passed on as another."""
    given, sent = ({"sessionId": "s", "update": update} for update in (before, after))
    return passes("session/update", given, sent, context)


def shows(update: object, context: Context = PLAIN) -> bool:
    """Whether a session update may be a component's own."""
    return may_send("session/update", {"sessionId": "s", "update": update}, context)


def test_what_stands_beside_an_update_stays() -> None:
    plan = {"sessionUpdate": "plan", "entries": [{"content": "a", "status": "pending"}]}
    reworded = {**plan, "entries": [{"content": "b", "status": "pending"}]}
    before = {"sessionId": "s", "turn": {"n": 1}, "update": plan}
    after = {**before, "update": reworded}
    assert passes("session/update", before, after)
    assert not passes("session/update", before, {**after, "turn": {"n": 2}})


def test_words_may_be_changed_and_made_up() -> None:
    said = {"type": "text", "text": "a"}
    other = {"type": "text", "text": "b"}
    for kind in ("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"):
        update: Object = {"sessionUpdate": kind, "messageId": "m", "content": said}
        odd = {**update, "x": 1}
        assert updated(odd, {**odd, "content": other})
        assert updated(update, {**update, "content": other, "_meta": {"a.b/c": 1}})
        assert shows(update)
    for kind in ("agent_message", "agent_thought", "user_message"):
        update = {"sessionUpdate": kind, "messageId": "m", "content": [said, said]}
        assert updated(update, {**update, "content": [said, other]})
        assert shows(update)
        assert shows({**update, "content": None})
    plan = {"sessionUpdate": "plan_update", "plan": {"planId": "p", "content": "# a"}}
    assert updated(plan, {**plan, "plan": {"planId": "p", "content": "# b"}})
    steps = [{"content": "a", "priority": "high", "status": "pending", "_meta": {"a.b/c": 1}}]
    assert shows({"sessionUpdate": "plan", "entries": steps, "_meta": {"a.b/c": 1}})
    for held in ({"type": "items", "entries": steps}, {"type": "markdown", "content": "# a"}):
        assert shows({"sessionUpdate": "plan_update", "plan": {"planId": "p", **held}})
    assert shows({"sessionUpdate": "plan_removed", "planId": "p"})


def test_texts_may_be_marked() -> None:
    part = {"conductor.conversation/subconversation": {"id": "r", "title": "Review"}}
    event = {"conductor.conversation/event": {"kind": "walkthrough", "data": {"a": 1}}}
    said: Object = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": ""}}
    assert shows({**said, "_meta": {**part, **event}})
    assert updated(said, {**said, "_meta": part})
    assert updated({**said, "_meta": event}, {**said, "_meta": {**event, **part}})


def test_words_of_notices_are_a_matter_of_grants() -> None:
    texts = granted(texts=True)
    notice = {"sessionUpdate": "notice", "severity": "info", "title": "a", "description": None}
    assert updated(notice, {**notice, "title": "b"}, texts)
    chunk = {"sessionUpdate": "compaction_summary_chunk", "content": {"type": "text", "text": "a"}}
    assert updated(chunk, {**chunk, "content": {"type": "text", "text": "b"}}, texts)


TONE: Object = {
    "id": "tone",
    "name": "Tone of voice",
    "description": "How it speaks",
    "type": "select",
    "currentValue": "warm",
    "options": [
        {"value": "warm", "name": "Warm", "description": "As a friend"},
        {"group": "modern", "name": "Modern", "options": [{"value": "none", "name": "None"}]},
    ],
}


def test_own_options_are_a_matter_of_grants() -> None:
    modes = msgspec.structs.replace(
        granted(options=True),
        added=frozenset({"mine", "tone"}),
        options=(canonical({"id": "model"}),),
    )
    options = {"sessionUpdate": "config_option_update", "configOptions": [{"id": "model"}]}
    more = {**options, "configOptions": [{"id": "model"}, TONE]}
    assert updated(options, more, modes)
    assert shows(more, modes)
    assert shows({**more, "configOptions": [{"id": "model"}, {"configId": "new"}]}, modes)
    for name in (
        "Role", "Voix d\u2019expert", "Gr\u00fc\u00dfe: formell", "Code reviewer", "\u2728 Warm",
        "\u0420\u043e\u043b\u044c", "\u5f79\u5272 (\u30b3\u30fc\u30c9)", "\u062f\u0648\u0631",
        "\u092d\u0942\u092e\u093f\u0915\u093e", "Ti\u1ebfng Vi\u1ec7t", "\u03a1\u03cc\u03bb",
    ):  # fmt: skip
        titled = {**TONE, "options": [{"value": "warm", "name": name}]}
        assert shows({**more, "configOptions": [{"id": "model"}, titled]}, modes), name
    method, choice = "session/set_config_option", {"configId": "tone", "value": "warm"}
    assert may_answer(method, {}, None, choice, modes)
    assert may_answer(method, {"configOptions": more["configOptions"]}, None, choice, modes)
    error = b'{"code":-32602,"message":"no"}'
    asked = Raw(json.dumps(choice).encode())
    assert answered(modes, "up", method, asked, b"error", error, None) is None
    assert may_answer(method, {**more, "x": 1}, {**options, "x": 1}, context=modes)


def test_own_commands_are_a_matter_of_grants() -> None:
    context = granted(commands=("plan", "$go"))
    kind = "available_commands_update"
    theirs: list[Object] = [{"name": "review"}, {"name": "$fix"}, {"name": "compact"}]
    own: list[Object] = [
        {"name": "plan", "description": "p", "input": {"hint": "x"}},
        {"name": "$go"},
    ]
    before = {"sessionUpdate": kind, "availableCommands": theirs}
    for after in ([*theirs, *own], [*own, *theirs], [theirs[0], own[1], *theirs[1:]]):
        assert updated(before, {**before, "availableCommands": after}, context)
        assert shows({**before, "availableCommands": after}, context)
    anything = granted(commands=("*",))
    for after in ([*theirs, own[0], {"name": "tldr"}], theirs):
        assert updated(before, {**before, "availableCommands": after}, anything)
        assert shows({**before, "availableCommands": after}, anything)
    # A name that was granted is the component's own, whoever lists it.
    shadowed = {**before, "availableCommands": [*theirs, {"name": "plan", "description": "q"}]}
    assert updated(shadowed, {**before, "availableCommands": [*theirs, own[0]]}, context)


def test_the_words_of_a_finished_tool_call_are_a_matter_of_grants() -> None:
    texts = granted(texts=True)
    text, diff, terminal = CALL["content"]
    for kind in ("tool_call", "tool_call_update"):
        for status in ("completed", "failed", "cancelled"):
            call = {**CALL, "sessionUpdate": kind, "status": status}
            other = {**text, "content": {"type": "text", "text": "***"}}
            assert updated(call, {**call, "content": [other, diff, terminal]}, texts)
            assert updated(call, {**call, "_meta": {"example.com/x": 1}})
            said = {**call, "rawOutput": {"out": ["a", 1], "exit": 0}}
            assert updated(said, {**said, "rawOutput": {"out": ["b", 1], "exit": 0}}, texts)
            assert updated({**call, "rawOutput": "a"}, {**call, "rawOutput": "b"}, texts)


def test_words_in_meta_are_a_matter_of_grants() -> None:
    texts = granted(texts=True)
    shown, starred = ({"terminal_output": {"data": word, "id": "t"}} for word in ("a", "***"))
    part = "conductor.conversation/subconversation"
    titled, hidden = ({part: {"id": "r", "title": word}} for word in ("a", "***"))
    said = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a"}}
    call = {"sessionUpdate": "tool_call_update", "toolCallId": "t"}
    pairs: list[tuple[Object, Object]] = [
        ({**said, "_meta": titled}, {**said, "_meta": hidden}),
        ({**call, "_meta": shown}, {**call, "_meta": starred}),
        ({**call, "status": "completed", "_meta": shown},
         {**call, "status": "completed", "_meta": {**starred, "example.com/x": 1}}),
    ]  # fmt: skip
    for before, after in pairs:
        assert updated(before, after, texts)
        assert not updated(before, after)


def test_odd_updates_pass_as_they_are() -> None:
    odd: list[Object] = [{"update": "word"}, {"update": {}}, {"update": {"sessionUpdate": 1}}, {}]
    for params in odd:
        text = json.dumps(params)
        respelled = Raw(f" {text}".encode())
        assert forwarded(PLAIN, "up", "session/update", Raw(text.encode()), respelled) is None


@pytest.mark.parametrize("method", ["initialize", "proxy/initialize"])
def test_a_component_that_speaks_version_1_only_chooses_it(method: str) -> None:
    """The version on offer is an upper bound; the component then writes as the Rust SDK does."""
    terminal = {"auth": {"terminal": {}}, "elicitation": {"form": {}}, "_meta": {"a": 1}}
    before = {**HELLO2, "capabilities": {**terminal, "fs": {"x": 1}}, "_meta": {"t": 1}, "_x": 1}
    lowered = {
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "session": {"configOptions": {"boolean": {}}},
            "auth": {"terminal": True},
            "elicitation": {"form": {}},
            "_meta": {"a": 1},
        },
        "clientInfo": HELLO2["info"],
        "_meta": {"t": 1},
    }
    assert passes(method, before, lowered)
    assert passes(method, before, {**lowered, "_x": 1, "info": HELLO2["info"]})
    assert not passes(method, before, {**lowered, "capabilities": before["capabilities"]})
    assert passes(method, HELLO2, {"protocolVersion": 1})
    assert passes(method, {"protocolVersion": 2}, {"protocolVersion": 1, "clientCapabilities": {}})


@pytest.mark.parametrize("method", ["initialize", "proxy/initialize"])
def test_a_client_may_be_said_to_do_less(method: str) -> None:
    less: list[Object | None] = [{}, {"fs": {}}, {"fs": {"readTextFile": False}}, None]
    for capabilities in less:
        assert passes(method, HELLO, {**HELLO, "clientCapabilities": capabilities})
    assert passes(method, HELLO, {k: v for k, v in HELLO.items() if k != "clientCapabilities"})
    harmless = {"fs": {"readTextFile": True}, "terminal": False, "Terminal": None}
    assert passes(method, HELLO, {**HELLO, "clientCapabilities": harmless})
    assert passes(method, {}, {"clientCapabilities": {}})
    assert passes(method, HELLO2, {**HELLO2, "capabilities": {"elicitation": None}})
    marked = {**HELLO2, "capabilities": {"_meta": {"example.com/x": True}}}
    assert passes(method, HELLO2, marked)


def test_an_agent_may_be_said_to_do_less() -> None:
    able = {**AGENT, "agentCapabilities": {"loadSession": True, "mcpCapabilities": {"http": True}}}
    assert may_answer("initialize", {**AGENT, "agentCapabilities": {}}, able)
    claims_nothing = {"loadSession": True, "promptCapabilities": None, "x": False}
    assert may_answer("initialize", {**AGENT, "agentCapabilities": claims_nothing}, able)
    assert may_answer("initialize", {**AGENT, "authMethods": []}, AGENT)
    less = {k: v for k, v in AGENT.items() if k != "authMethods"}
    assert may_answer("initialize", less, AGENT)
    for name, capabilities in (
        ("agentCapabilities", {"mcpCapabilities": {"acp": True}}),
        ("capabilities", {"session": {"mcp": {"acp": {}}}}),
    ):
        base = AGENT if name == "agentCapabilities" else AGENT2
        assert may_answer("initialize", {**base, name: capabilities}, base)


@pytest.mark.parametrize(
    ("place", "capability", "methods"),
    [
        ("agentCapabilities", {"loadSession": True}, "session/load"),
        ("agentCapabilities", {"sessionCapabilities": {"fork": {}}}, "session/fork"),
        ("agentCapabilities", {"sessionCapabilities": {"list": {}}}, "session/list"),
        ("capabilities", {"session": {"fork": {}}}, "session/fork"),
    ],
)
def test_what_a_component_answers_it_may_promise(
    place: str, capability: object, methods: str
) -> None:
    base = AGENT if place == "agentCapabilities" else AGENT2
    after = {**base, place: capability}
    assert not may_answer("initialize", after, base)
    able = Context(answerable=frozenset(methods.split()))
    assert may_answer("initialize", after, base, context=able)


def test_what_promises_several_methods_needs_all_of_them() -> None:
    after = {**AGENT, "agentCapabilities": {"sessionCapabilities": {"archive": {}}}}
    methods = ("session/archive", "session/unarchive")
    assert may_answer("initialize", after, AGENT, context=Context(answerable=frozenset(methods)))
    half = Context(answerable=frozenset(methods[:1]))
    assert not may_answer("initialize", after, AGENT, context=half)


def test_capabilities_are_a_matter_of_grants() -> None:
    able = {**HELLO, "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}}}
    for named in ("*", "/fs/writeTextFile", "/fs"):
        assert passes("initialize", HELLO, able, granted(capabilities=(named,)))
    reading = {"clientCapabilities": {"fs": {"readTextFile": True}}}
    assert passes("initialize", {}, reading, granted(capabilities=("/fs/readTextFile",)))
    assert not passes("initialize", HELLO, able, granted(capabilities=("/fs/write",)))
    noted = {"clientCapabilities": {"elicitation": {"form": {"_meta": {"example.com/x": 1}}}}}
    form = granted(capabilities=("/elicitation/form",))
    assert passes("initialize", {}, noted, form)
    more = {"clientCapabilities": {"elicitation": {"form": {"_meta": {}, "more": True}}}}
    assert not passes("initialize", {}, more, form)
    seeing = {**AGENT, "agentCapabilities": {"promptCapabilities": {"image": True}}}
    context = granted(capabilities=("/promptCapabilities/image",))
    assert may_answer("initialize", seeing, AGENT, context=context)
    fork = {**AGENT2, "capabilities": {"session": {"prompt": {}, "fork": {}}}}
    assert may_answer("initialize", fork, AGENT2, context=granted(capabilities=("/session/fork",)))


@pytest.mark.parametrize("method", USES)
def test_own_servers_may_be_used_and_served(method: str) -> None:
    name, other = USES[method]
    for address in ("mine", "my-connection", "acp:mine"):
        params = {name: address, other: {"x": 1}, "params": {"url": "theirs"}}
        assert may_send(method, params)
        assert may_answer(method, {"result": 1, "connectionId": "new"}, None, params)
        assert passes(method, params, {**params, other: 2})
        assert may_answer(method, {"result": 2}, {"result": 1}, params)
    theirs = {name: "theirs", other: 1}
    assert may_answer(method, {"result": [1]}, {"result": [1]}, theirs)
    others = granted(mcp="others")
    assert may_answer(method, {"result": [2]}, {"result": [1]}, theirs, others)
    assert may_answer(method, {"result": [2]}, None, theirs, others)
    assert passes(method, theirs, {**theirs, other: 2}, others)
    assert not may_send(method, theirs, others)
    opened = {"connectionId": "their-connection"}
    assert may_answer(method, {**opened, "x": 1}, opened, theirs, others)
    called = {"connectionId": "tools-demo-2:1/1", "connection_id": "tools-demo-2:1/1"}
    assert may_answer(method, called, None, {name: "mine"})


@pytest.mark.parametrize(
    ("params", "addresses"),
    [
        ({"mcpServers": [MINE, THEIRS, STDIO, HTTP]}, "mine theirs acp:mine acp:theirs"),
        ({"mcpServers": [{"type": "acp", "name": "n", "id": "old"}]}, "old acp:old"),
        ({"mcpServers": [{"type": "http", "name": "n", "url": "acp:u"}]}, "acp:u u"),
        ({"mcp_servers": [{"name": "n", "url": "acp:u"}]}, "acp:u u"),
        ({"mcpServers": [{"type": "scp", "name": "n"}]}, "n acp:n"),
        (
            {"tools": {"mcpServers": {"k": {"type": "scp"}, "l": MINE, "x": {"url": "acp:u"}}}},
            "k acp:k mine acp:mine acp:u u",
        ),
        ({"mcpServers": {"k": {"transport": "http", "url": "acp:u"}}}, "acp:u u"),
        ({"mcpServers": "mine", "tools": ["mine"], "x": [MINE]}, ""),
        ({"mcpServers": [None, 1, "x", {"type": "acp", "serverId": 1}, {"url": 1}]}, ""),
        ([MINE], ""),
    ],
)
def test_declared_finds_the_addresses_of_every_generation(params: object, addresses: str) -> None:
    raw = Raw(json.dumps(params).encode())
    for method in (*SETUPS, "Session/New"):
        assert declared(method, raw) == frozenset(addresses.split())
    assert declared("session/prompt", raw) == frozenset()


@pytest.mark.parametrize("raw", [UNSET, Raw(b"{"), Raw(b"\xff"), Raw(b"null")])
def test_what_cannot_be_read_declares_and_connects_nothing(raw: Raw | UnsetType) -> None:
    assert declared("session/new", raw) == frozenset()
    assert connected("mcp/connect", raw) == frozenset()


def test_declared_sees_what_is_said_twice() -> None:
    raw = Raw(b'{"mcpServers":[],"mcpServers":[{"type":"acp","serverId":"a","serverId":"b"}]}')
    assert declared("session/new", raw) == {"a", "b", "acp:a", "acp:b"}


def test_connected_finds_the_connection() -> None:
    assert connected("mcp/connect", Raw(b'{"connectionId":"c"}')) == {"c"}
    assert connected("_mcp/connect", b'{"connection_id":"c"}') == {"c"}
    assert connected("mcp/connect", Raw(b'{"connectionId":1}')) == frozenset()
    assert connected("mcp/message", Raw(b'{"connectionId":"c"}')) == frozenset()


@pytest.mark.parametrize("method", CONVERSATIONS)
def test_a_component_adds_to_a_conversation_under_its_own_name(method: str) -> None:
    context = msgspec.structs.replace(granted(methods=CONVERSATIONS), component="me 2")
    item = {"type": "prompt", "content": [{"_meta": 3}], "_meta": {}}
    held = {"conversation": {"turns": [{"items": [item]}], "_meta": {"example.com/a": 1}}}
    own = {"conductor.component/me-2": {"n": 1}}
    more = {
        "conversation": {
            "turns": [{"items": [{**item, "_meta": own}], "_meta": own}],
            "_meta": {"example.com/a": 1, **own},
        }
    }
    assert may_answer(method, more, held, None, context)
    error = (b"error", b'{"code":-32601,"message":"unknown"}')
    held["conversation"]["_meta"] = more["conversation"]["_meta"] = {"plain": 1}
    asked, body = Raw(json.dumps(held).encode()), json.dumps(more).encode()
    assert answered(context, "down", method, asked, b"result", body, error) is None


MCP_RESULTS: Final[dict[str, Object]] = {
    "words": {"content": [{"type": "text", "text": "@types/node, /usr/lib, @/etc/hosts"}]},
    "data": {"content": [], "structuredContent": {"url": "/x", "method": "elicitation/create"}},
    "links": {
        "content": [
            {"type": "resource_link", "uri": uri, "name": "n"}
            for uri in ("file:///w/a.py", "https://x.example/y", "notes://today", "acp:mine")
        ]
    },
    "contents": {"contents": [{"uri": "notes://today", "text": "x", "mimeType": "text/html"}]},
    "templates": {"resourceTemplates": [{"uriTemplate": "notes://{day}", "name": "notes"}]},
    "tools": {"tools": [{"name": "context"}, {"name": "read_file", "inputSchema": {"uri": "/"}}]},
    "metadata": {
        "content": [],
        "x": {"_meta": {"x.example/y": 1, "io.modelcontextprotocol/serverInfo": {"name": "m"}}},
    },
    "messages": {"messages": [{"role": "user", "content": {"type": "text", "text": "see @/w/a"}}]},
    "several": {"messages": [{"role": "user", "content": [1, {"type": "text", "text": "hello"}]}]},
}


@pytest.mark.parametrize("what", MCP_RESULTS)
def test_what_servers_say(what: str) -> None:
    result, asked = MCP_RESULTS[what], {"serverId": "mine", "method": "tools/call"}
    assert may_answer("mcp/message", result, None, asked)
    assert may_answer("mcp/message", {"result": result}, None, asked)


def test_what_servers_ask_with_grants() -> None:
    sampled = {"messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}]}
    prompting = msgspec.structs.replace(CONTEXT, prompts=True)
    form = {"message": "evil: Which one?\nPlease say.", "requestedSchema": {}}
    opened = {**form, "mode": "url", "url": "https://x.example", "elicitationId": "1"}
    asks: tuple[tuple[str, Object, Context], ...] = (
        ("sampling/createMessage", {**sampled, "includeContext": "none"}, prompting),
        ("elicitation/create", form, granted(editor=("ask",))),
        ("elicitation/create", {**form, "mode": "form"}, granted(editor=("ask",))),
        ("elicitation/create", opened, granted(editor=("ask", "browser"))),
        ("roots/list", {}, CONTEXT),
        ("notifications/progress", {"progressToken": 1, "message": "@/etc"}, CONTEXT),
    )
    for method, params, context in asks:
        inner = {"method": method, "params": params}
        assert may_send("mcp/message", {"connectionId": "my-connection", **inner}, context)
        assert may_send("_scp/mcp", {"name": "mine", "message": {"id": 1, **inner}}, context)
        wanted = {"resultType": "input_required", "inputRequests": {"a": inner}}
        assert may_answer("mcp/message", {"result": wanted}, None, {"serverId": "mine"}, context)


def test_pages_of_tools_with_grants() -> None:
    both = granted(editor=("panel", "widget"))
    of_tool = {"tools": [{"name": "t", "_meta": {"ui": {"resourceUri": "ui://mine/x"}}}]}
    kind = "text/html;profile=mcp-app"
    page = {"contents": [{"uri": "ui://mine/x", "mimeType": kind, "text": "<script>1</script>"}]}
    for result in (of_tool, page):
        asked = {"serverId": "mine", "method": "tools/list"}
        assert may_answer("mcp/message", {"result": result}, None, asked, both)


def test_what_others_said_stays_as_it_was() -> None:
    other = {"uri": "file:///etc/hosts", "text": "x", "_meta": {"k": 1}}
    before, after = {"contents": [other, {"uri": "x://y"}]}, {"contents": [other]}
    asked = {"serverId": "theirs", "method": "resources/read"}
    assert may_answer("mcp/message", after, before, asked, granted(mcp="others"))
    call = {"serverId": "theirs", "method": "tools/call", "params": {"arguments": {}}}
    changed = {**call, "params": {"arguments": {"uri": "file:///etc/hosts"}}}
    assert passes("mcp/message", call, changed, granted(mcp="others"))


def test_an_error_of_a_conversation_stays_however_it_is_spelled() -> None:
    came, same = b'{"code":-32601,"message":"no"}', b'{"message": "no", "code": -32601}'
    for method in ("_conversation/summarize", "_conversation/augment"):
        asked = (PLAIN, "up", method, Raw(b"{}"), b"error")
        assert answered(*asked, same, (b"error", came)) is None
        assert answered(*asked, same.replace(b"no", b"yes"), (b"error", came)) is not None
