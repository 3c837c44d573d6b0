"""Whatever a component sends: the guards answer, and protected values stay protected."""

import copy
import json
import random
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw, UnsetType

from conductor.core.guards import (
    Context,
    Violation,
    answered,
    check,
    connected,
    declared,
    forwarded,
    originated,
)
from conductor.core.guards.names import KNOWN
from conductor.core.guards.reading import Ambiguous, Number, Unreadable, difference, read
from conductor.core.guards.rules import Attempt, Breaches
from tests.core.test_guards.attack import ALL, CONTEXT, PLAIN, granted
from tests.core.test_guards.samples import AGENT, CLIENT, HELLO, HELLO2, SEALED, V1, V2, Object

_names = st.sampled_from(
    ["sessionId", "_meta", "mcpServers", "tools", "update", "sessionUpdate", "options", "outcome",
     "optionId", "kind", "type", "url", "serverId", "name", "capabilities", "content", "status",
     "clientCapabilities", "prompt", "text", "uri", "resource", "sessions", "modes", "toolCall",
     "configOptions", "availableModes", "availableCommands",
     "agentCapabilities", "authMethods", "connectionId", "a", "\ud800"]
)  # fmt: skip
_texts = st.one_of(
    st.text(max_size=5),
    st.sampled_from(
        [
            "/yolo",
            "@/etc",
            "file:///etc",
            "available_commands_update",
            "acp",
            "mine",
            "acp:mine",
            "tool_call",
            "plan",
            "selected",
            "completed",
        ]
    ),
)
_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        _texts,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(_names | st.text(max_size=3), inner, max_size=4),
    ),
    max_leaves=12,
)
_json = _values.map(lambda value: json.dumps(value).encode())
_broken = st.one_of(
    st.binary(max_size=20),
    st.integers(300, 5000).map(lambda n: b'{"a":' * n + b"1" + b"}" * n),
    st.integers(300, 5000).map(lambda n: b"[" * n + b"]" * n),
    st.sampled_from([b'{"a":1,"a":2}', b"NaN", b"\xef\xbb\xbf{}", b"1" * 5000, b'{"a":-}']),
)
_bytes = _json | _broken
_params: st.SearchStrategy[Raw | UnsetType] = st.just(UNSET) | _bytes.map(Raw)
_methods = st.one_of(
    st.sampled_from(sorted(KNOWN)),
    st.sampled_from(sorted(KNOWN)).map(str.upper),
    st.text(max_size=12),
    st.sampled_from(["fs/", "_x/y", "mcp/x", "a" * 1000, "proxy/", "session/teleport"]),
)
EVERYTHING = granted(
    turns="unprompted",
    commands=("review", "$fix"),
    permission="narrow",
    mcp="others",
    sessions="own",
    options=True,
    editor=("panel", "comment", "operation"),
    methods=("_*",),
    texts=True,
    capabilities=("*",),
)
_contexts = st.sampled_from([Context(), CONTEXT, EVERYTHING, Context(version=2)])
_ways = st.sampled_from(["down", "up"])
_members = st.sampled_from([b"result", b"error"])


def judge(found: Violation | None) -> None:
    """A finding is none, or a sentence about a guard, which can be sent as JSON."""
    if found is not None:
        assert found.guard in ALL
        assert 0 < len(found.text) < 400
        assert len(found.pointer) <= 500
        assert (found.text + found.pointer).encode()


@given(_contexts, _ways, _methods, _params, _params)
def test_forwarding_anything_is_judged(
    context: Context, way: str, method: str, original: Raw | UnsetType, sent: Raw | UnsetType
) -> None:
    judge(forwarded(context, way, method, original, sent))
    assert forwarded(context, way, method, sent, sent) is None


@given(_contexts, _ways, _methods, _params)
@example(Context(), "up", "_x/y", Raw(b'{"\\ud800":1}'))
def test_originating_anything_is_judged(
    context: Context, way: str, method: str, params: Raw | UnsetType
) -> None:
    judge(originated(context, way, method, params))
    assert isinstance(declared(method, params), frozenset)
    assert isinstance(connected(method, params), frozenset)


@given(_contexts, _methods, _params, _members, _bytes, st.none() | st.tuples(_members, _bytes))
def test_answering_anything_is_judged(
    context: Context,
    method: str,
    request: Raw | UnsetType,
    member: bytes,
    body: bytes,
    upstream: tuple[bytes, bytes] | None,
) -> None:
    judge(answered(context, "up", method, request, member, body, upstream))
    assert answered(context, "up", method, request, member, body, (member, body)) is None


def _mutated(value: Object, chance: random.Random) -> Object:
    """`value` with one thing changed somewhere: a value, a member more, less or renamed."""
    value = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []

    def collect(holder: object) -> None:
        pairs: Iterable[tuple[object, object]] = ()
        if isinstance(holder, dict):
            pairs = holder.items()
        elif isinstance(holder, list):
            pairs = enumerate(holder)
        for key, inner in pairs:
            places.append((holder, key))
            collect(inner)

    collect(value)
    holder, key = chance.choice(places)
    what = chance.choice(["value", "gone", "name", "more"])
    if what == "gone":
        del holder[key]
    elif what == "name" and isinstance(holder, dict):
        holder[key.upper()] = holder.pop(key)
    elif what == "more" and isinstance(holder, dict):
        holder["unheard-of"] = True
    else:
        holder[key] = ["another", holder[key]]
    return value


def _protected(method: str, params: dict[str, Any]) -> bool:
    return forwarded(CONTEXT, "down", method, Raw(json.dumps(params).encode()), UNSET) is not None


@pytest.mark.proves("from a policed proxy to client", "conductor refuses any single")
@pytest.mark.parametrize(
    ("method", "params", "free"),
    [
        *((method, {"sessionId": "s", "a": {"b": [1, {"c": "d"}]}}, ()) for method in SEALED),
        ("session/request_permission", V1, ("options",)),
        ("session/request_permission", V2, ("options",)),
        *((f"session/{m}", CLIENT, ()) for m in ("new", "load", "resume", "fork")),
        ("initialize", HELLO, ("clientCapabilities",)),
        ("initialize", HELLO2, ("capabilities",)),
    ],
)
@given(chance=st.randoms(use_true_random=False))
def test_one_change_to_what_is_protected_is_refused(
    method: str, params: dict[str, Any], free: tuple[str, ...], chance: random.Random
) -> None:
    fixed = {k: v for k, v in params.items() if k not in free}
    assert _protected(method, fixed)
    after = _mutated(fixed, chance)
    texts = (
        Raw(json.dumps({**v, **{k: params[k] for k in free}}).encode()) for v in (fixed, after)
    )
    assert forwarded(CONTEXT, "down", method, *texts) is not None


_kinds = st.sampled_from(
    ["allow_once", "allow_always", "reject_once", "reject_always", "allow_forever", None]
)
_options = st.lists(
    st.builds(lambda i, k: {"optionId": i, "name": i, "kind": k}, st.sampled_from("abc"), _kinds),
    max_size=5,
)


NARROW = granted(permission="narrow")


@pytest.mark.proves("removing options never widens")
@given(_options, st.data())
def test_taking_options_away_never_widens(
    options: list[dict[str, Any]], data: st.DataObject
) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(options), max_size=len(options)))
    kept = [option for option, stays in zip(options, mask, strict=True) if stays]
    texts = [Raw(json.dumps({"options": o}).encode()) for o in (options, kept)]
    if forwarded(NARROW, "up", "session/request_permission", *texts) is not None:
        return
    rejects = [o for o in options if str(o["kind"]).startswith("reject")]
    assert not rejects or any(o in rejects for o in kept)
    narrow = [o for o in options if o["kind"] == "allow_once"]
    wide = [o for o in kept if o not in rejects and o["kind"] != "allow_once"]
    assert not wide or [o for o in kept if o["kind"] == "allow_once"] == narrow


@pytest.mark.proves("no answer of a component itself")
@given(_options, st.sampled_from("abcd"), st.none() | st.sampled_from("abcd"))
def test_no_answer_of_its_own_ever_allows(
    options: list[dict[str, Any]], chosen: str, client: str | None
) -> None:
    def selecting(option: str) -> bytes:
        return json.dumps({"outcome": {"outcome": "selected", "optionId": option}}).encode()

    upstream = None if client is None else (b"result", selecting(client))
    request = Raw(json.dumps({"options": options}).encode())
    found = answered(
        NARROW, "up", "session/request_permission", request, b"result", selecting(chosen), upstream
    )
    kinds = [str(o["kind"]) for o in options if o["optionId"] == chosen]
    refuses = bool(kinds) and all(kind.startswith("reject_") for kind in kinds)
    assert (found is None) == (refuses or chosen == client)


@given(chance=st.randoms(use_true_random=False))
def test_one_change_to_an_initialize_result_claims_nothing_new(chance: random.Random) -> None:
    before = {**AGENT, "agentCapabilities": {"loadSession": False, "x": {"y": {}, "z": None}}}
    after = {**before, "agentCapabilities": _mutated(before["agentCapabilities"], chance)}
    given_ = (b"result", json.dumps(before).encode())
    body = json.dumps(after).encode()
    found = answered(CONTEXT, "up", "initialize", UNSET, b"result", body, given_)

    def claims(value: object) -> set[str]:
        if not isinstance(value, dict):
            return set() if value in (None, False) else {json.dumps(value)}
        inner = ((name, claims(held)) for name, held in value.items() if held not in (None, False))
        return {f"{name}/{claim}" for name, all_ in inner for claim in all_ | {""}}

    more = claims(after["agentCapabilities"]) - claims(before["agentCapabilities"])
    assert (found is not None) == bool(more)


@given(_values)
def test_reading_keeps_every_value(value: object) -> None:
    def rebuilt(node: object) -> object:
        if isinstance(node, Number):
            return json.loads(node.text)
        if isinstance(node, Ambiguous):
            return {name: rebuilt(held) for name, held in node.pairs}
        if isinstance(node, dict):
            return {name: rebuilt(held) for name, held in node.items()}
        return [rebuilt(held) for held in node] if isinstance(node, list) else node

    document = read(Raw(json.dumps(value).encode()))
    assert rebuilt(document.value) == value
    assert difference(document.value, read(json.dumps(value, indent=1).encode()).value) is None


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff", b'"\xed\xa0\x80"', b"NaN", b"-Infinity", b"01"]
)
def test_what_is_no_json_is_unreadable(text: bytes) -> None:
    with pytest.raises(Unreadable, match="not JSON"):
        read(text)
    with pytest.raises(Unreadable, match="too deeply"):
        read(b"[" * 100_000)


def _at(before: object, after: object) -> str | None:
    one, other = (read(json.dumps(value).encode()).value for value in (before, after))
    return difference(one, other)


def test_a_difference_is_pointed_at() -> None:
    assert _at({"a": [1, {"b/~": 1}]}, {"a": [1, {"b/~": 2}]}) == "/a/1/b~1~0"
    assert _at({"a": 1}, {"a": 1, "b": None}) == "/b"
    assert _at({"a": 1, "b": None}, {"a": 1}) == "/b"
    assert _at([1], [1, 2]) == ""
    assert _at({"\ud800": 1}, {"x": 1}) == ""
    deep: Any = 1
    other: Any = 2
    for _ in range(20):
        deep, other = {"a": deep}, {"a": other}
    assert _at(deep, other) == "/a" * 8


@pytest.mark.parametrize(
    ("method", "before", "after", "pointer"),
    [
        (
            "session/new",
            b'{"_meta":{"a/b":{"c":1}}}',
            b'{"_meta":{"a/b":{"c":2}}}',
            "/_meta/a~1b/c",
        ),
        ("session/prompt", b"{}", b'{"_meta":{"x":1}}', "/_meta/x"),
        ("session/prompt", b'{"prompt":[]}', b'{"prompt":[{"text":"/x"}]}', "/prompt/0"),
        ("session/prompt", b'{"prompt":[]}', b'{"prompt":[1,{"uri":"file:"}]}', "/prompt/1"),
        ("session/new", b"{}", b'{"mcpServers":[{"command":"sh","name":"x"}]}', "/mcpServers/0"),
        ("session/new", b'{"cwd":"a"}', b'{"cwd":"b"}', "/cwd"),
        ("session/prompt", b'{"sessionId":"a"}', b"{}", "/sessionId"),
        ("session/update", b'{"update":{}}', b'{"update":{"a":1}}', "/update/a"),
        ("initialize", b"{}", b'{"capabilities":{"fs":{"x":true}}}', "/capabilities/fs"),
        ("fs/new", b'{"a":[1,{"b":2}]}', b'{"a":[1,{"b":3}]}', "/a/1/b"),
    ],
)
def test_a_violation_says_where(method: str, before: bytes, after: bytes, pointer: str) -> None:
    found = forwarded(CONTEXT, "down", method, Raw(before), Raw(after))
    assert found is not None
    assert found.pointer == pointer


def test_a_violation_says_what() -> None:
    for direction, whom in (("down", "agent"), ("up", "client")):
        found = originated(CONTEXT, direction, "fs/read_text_file", UNSET)
        assert found is not None
        assert found.text == f"`fs/read_text_file` may not be originated towards the {whom}"
    own = answered(CONTEXT, "up", "fs/read_text_file", UNSET, b"result", b"{}", None)
    assert own is not None
    assert "denied with an error" in own.text


def test_a_huge_message_is_judged() -> None:
    blocks = ",".join(f'{{"type":"text","text":"{n}"}}' for n in range(8_000))
    before = Raw(b'{"sessionId":"s","prompt":[%b]}' % blocks.encode())
    after = Raw(b'{"sessionId":"t","prompt":[%b]}' % blocks.encode())
    found = forwarded(CONTEXT, "down", "session/prompt", before, after)
    assert found is not None
    assert found.guard == "session-target"
    names = ",".join(f'"k{n}":0' for n in range(24_000))
    found = originated(PLAIN, "down", "_x/y", Raw(f'{{{names},"k0":1}}'.encode()))
    assert found is not None
    assert found.guard == "duplicate-keys"
    assert "'k0'" in found.text


@pytest.mark.parametrize("depth", [*range(400, 1000, 20), 2000, 4000, 8000, 50_000])
def test_what_nests_too_deeply_is_refused(depth: int) -> None:
    def nested(leaf: bytes) -> bytes:
        capabilities = b'{"a":' * depth + leaf + b"}" * depth
        return b'{"protocolVersion":1,"clientCapabilities":%b}' % capabilities

    narrowed = forwarded(CONTEXT, "down", "initialize", Raw(nested(b"true")), Raw(nested(b"false")))
    judge(narrowed)
    assert narrowed is None or "deeply" in narrowed.text or "values" in narrowed.text
    assert depth < 8000 or narrowed is not None
    widened = Raw(nested(b"false")), Raw(nested(b"true"))
    assert forwarded(CONTEXT, "down", "initialize", *widened) is not None


@pytest.mark.proves("a rule that cannot judge a message")
def test_a_rule_that_runs_out_of_stack_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def deeper(attempt: Attempt) -> Breaches:
        yield from deeper(attempt)

    monkeypatch.setattr(check, "_checks", lambda route, pattern: (("links", deeper),))
    for context in (Context(), EVERYTHING):
        found = forwarded(context, "down", "session/prompt", UNSET, Raw(b"{}"))
        assert found is not None
        assert "deeply" in found.text


def test_long_names_do_not_fill_the_log() -> None:
    for name in ("x" * 100_000, "\u20ac" * 100_000, "/" * 100_000):
        sent = Raw(json.dumps({"cwd": {name: {"a": 1}}}).encode())
        found = forwarded(CONTEXT, "down", "session/new", Raw(b'{"cwd":{}}'), sent)
        assert found is not None
        assert found.pointer == "/cwd"
        judge(found)
        judge(originated(CONTEXT, "down", name, UNSET))


def test_what_holds_too_much_to_be_judged_is_not_changed() -> None:
    """250,000 blocks took seconds, objects with a name twice minutes: each was compared to all."""
    for block in (b"1", b'{"a":1,"a":2}'):
        before = b'{"prompt":[' + b",".join([block] * 25_000)
        found = forwarded(
            CONTEXT, "down", "session/prompt", Raw(before + b"]}"), Raw(before + b',"x"]}')
        )
        assert found is not None
        assert found.guard == "duplicate-keys"
        assert "it has more than 25,000 values" in found.text
    alike = ",".join(f'{{"a":1,"a":{n}}}' for n in range(6_000)).encode()
    before = b'{"x":[%b],"a":1}' % alike
    assert forwarded(PLAIN, "down", "_x/y", Raw(before), Raw(before[:-2] + b"2}")) is None


@pytest.mark.parametrize("sign", ['@"', "@(", "@[", "@ ", "@a/../", "\uff20"])
def test_a_prompt_of_mentions_is_not_looked_through(sign: str) -> None:
    """16 MiB of mentions took up to 39 seconds."""
    text = msgspec.json.encode({"prompt": [{"type": "text", "text": sign * 20_000}]})
    more = msgspec.json.encode({"prompt": [{"type": "text", "text": sign * 20_000 + "x"}]})
    for found in (
        forwarded(CONTEXT, "down", "session/prompt", Raw(text), Raw(more)),
        originated(CONTEXT, "down", "session/prompt", Raw(text)),
    ):
        assert found is not None
        assert (found.guard, found.pointer) == ("links", "/prompt")
        assert "more than 10,000 `@`" in found.text


def test_a_name_longer_than_any_path_leads_nowhere_unless_it_holds_its_data() -> None:
    def linked(uri: str) -> Violation | None:
        block = {"type": "resource_link", "name": "x", "uri": uri}
        after = msgspec.json.encode({"prompt": [block]})
        return forwarded(CONTEXT, "down", "session/prompt", Raw(b'{"prompt":[]}'), Raw(after))

    long = "a" * 5000
    assert linked(f"data:image/png;base64,{long}") is None
    for uri in (f"/p/{long}", f"https://example.com/{long}", f"data:x,{long}..", f"data:{long}:"):
        found = linked(uri)
        assert found is not None
        assert found.guard == "links"
