"""Any file read as a trace: what is one is shown, what is none is an error or a gap."""

import asyncio
import json
import random
import tracemalloc
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

import conductor as library
from conductor.cli import main
from conductor.record.turns import edits, reader
from conductor.record.turns import filter as filters
from conductor.record.turns.line import read_line, written
from conductor.record.turns.lines import FileLines
from conductor.record.turns.messages import read_update
from conductor.record.turns.model import Change, Usage
from conductor.record.turns.reader import Reader
from tests.harness.process.command import conductor
from tests.record.turns import recorded

REFERENCE: Final = Path(__file__).with_name("reference.jsons")
"""A trace that the reference conductor 5.0.0 wrote: two proxies that add a block to each prompt."""
EVIL: Final = "\x1b]0;x\x07\x1b[31m\r\n\u202e\x9b31m<img src=x onerror=alert(1)>"


def ours() -> list[bytes]:
    """The lines of a trace of ours."""
    return recorded.trace().read_bytes().splitlines(keepends=True)


def theirs() -> list[bytes]:
    """The lines of a trace of the reference."""
    return REFERENCE.read_bytes().splitlines(keepends=True)


def read(lines: list[bytes]) -> Reader:
    """A reader that has taken these lines."""
    made, held = reader.held()
    for line in lines:
        held.append(line)
        made.take(line)
    return made


def look_at_all(made: Reader) -> None:
    """Asks a reader for all that it can show; times are sane whatever the lines hold."""
    made.head()
    assert len(made.rows(0, len(made) + 1)) <= len(made)
    chosen = filters.parse('~changed | ~slow 1ms | "x"')
    for row in made.rows(0, len(made)):
        assert row.ms >= 0
        assert row.ms_in >= 0
        assert row.pair < len(made)
        chosen.matches(row, lambda number: made.line(number).decode("utf-8", "replace"))
        made.before(row.n), made.change(row.n), made.turn_of(row.n)
    for turn in made.turns:
        detail = made.detail(turn.number)
        assert all(visit.ms >= 0 for visit in detail.visits)
        assert all(share.ms >= 0 for share in turn.shares)
        if turn.ms is not None:
            assert all(share.ms <= turn.ms + 0.01 for share in turn.shares)


def test_what_is_read_of_a_line_writes_the_same_line() -> None:
    events = 0
    for line in ours():
        read = read_line(line)
        assert read is not None
        if read.is_event:
            events += 1
            assert written(read) == line
    assert events > 100


# -- the reference ---------------------------------------------------------------------------------


def test_a_trace_of_the_reference() -> None:
    made = read(theirs())
    head = made.head()
    assert (head.by, head.gaps) == ("reference", ())
    assert head.components == ("client", "Proxy(0)", "Proxy(1)", "agent")
    turns = made.turns[1:]
    assert [turn.prompt for turn in turns] == [
        "hello world", "/permission Edit x", "/plan", "/toolcall read a", "/read /x", "/hang",
        "/usage", "last words",
    ]  # fmt: skip
    assert turns[5].stop == "cancelled"
    assert turns[6].usage is not None
    assert turns[6].usage.cost == 0.25
    for turn in turns:
        assert [share.component for share in turn.shares if share.component != "client"] == [
            "Proxy(0)", "Proxy(1)", "agent",
        ]  # fmt: skip
        assert {share.says for share in turn.shares[:2]} <= {"added 1 block", ""}
        visits = [v for v in made.detail(turn.number).visits if v.method == "session/prompt"]
        changed = [v for v in visits if v.change is Change.CHANGED]
        assert [v.component for v in changed] == ["Proxy(0)", "Proxy(1)"]
        assert all("a note from the proxy" in v.edits[0].after for v in changed)
    look_at_all(made)


def test_what_a_person_is_asked_is_their_time_and_not_the_agent_s() -> None:
    for lines in (ours(), theirs()):
        made = read(lines)
        (turn,) = (one for one in made.turns if one.prompt.startswith("/permission"))
        agent = turn.shares[-1]
        assert agent.component == "agent"
        assert turn.ms is not None
        assert 0 < turn.person_ms < turn.ms - agent.ms
        (item,) = (one for one in made.detail(turn.number).items if one.kind == "question")
        assert item.status.startswith("Allow once")


@pytest.mark.parametrize(
    ("method", "ms"),
    [("session/request_permission", 5000.0), ("elicitation/create", 5000.0), ("_other", 0.0)],
)
def test_two_methods_ask_a_person(method: str, ms: float) -> None:
    held = {"type": "request", "params": {"sessionId": "s"}}
    lines = [
        {**held, "from": "client", "to": "agent", "method": "session/prompt", "id": 0},
        {**held, "from": "agent", "to": "client", "method": method, "id": 1},
        {"type": "response", "from": "client", "to": "agent", "id": 1, "payload": {}},
    ]
    owns = [{"n": 1}, {"n": 2}, {"n": 3, "of": 2}]
    head = b'{"type":"_conductor","components":["agent"],"content":"all"}\n'
    made = read([head, *(
        json.dumps({**line, "ts": 5 * own["n"], "_conductor": own}).encode()
        for line, own in zip(lines, owns, strict=True)
    )])  # fmt: skip
    assert made.turns[1].person_ms == ms
    kinds = [item.kind for item in made.detail(1).items]
    assert kinds == ["prompt", "question" if ms else "notice"]


# -- ours ------------------------------------------------------------------------------------------


def test_who_changed_what() -> None:
    made = read(ours())
    assert made.head().gaps == ()
    first = made.turns[1]
    says = {share.component: share.says for share in first.shares}
    assert says["datetime"] == "added 1 block"
    assert says["redact"]
    edits = [
        (visit.component, edit.before, edit.after)
        for visit in made.detail(1).visits
        for edit in visit.edits
        if visit.method == "session/prompt"
    ]
    assert [who for who, _, _ in edits] == ["datetime", "redact"]
    assert "<current-date" in edits[0][2]
    assert "github-token" in edits[1][2]  # the key itself is in no trace
    for turn in made.turns[1:]:
        for share in turn.shares:
            times = [each.ms for each in made.detail(turn.number).visits
                     if each.component == share.component]  # fmt: skip
            if times:  # a component's time is that of its visits
                assert max(times) - 0.01 <= share.ms <= sum(times) + 0.01
    calls = [one for turn in made.turns for one in made.detail(turn.number).items
             if one.kind == "mcp"]  # fmt: skip
    assert [one.text for one in calls][-1] == "tools/call add"
    assert {one.component for one in calls} == {"tools-demo"}
    look_at_all(made)


def test_a_trace_without_content_shows_that_something_changed(tmp_path: Path) -> None:
    async def record() -> None:
        chain = library.open(
            "datetime",
            "passthrough,only=full",
            "demo",
            cwd=tmp_path,
            trace=str(tmp_path / "t"),
            trace_content="none",
        )
        async with chain as opened:
            await opened.prompt("hi")

    asyncio.run(record())
    made = read((tmp_path / "t").read_bytes().splitlines(keepends=True))
    visits = [visit for visit in made.detail(1).visits if visit.method == "session/prompt"]
    assert [(visit.component, visit.change) for visit in visits][:2] == [
        ("datetime", Change.CHANGED),
        ("passthrough", Change.SAME),
    ]


def test_neither_another_spelling_nor_the_conductor_s_change_is_a_component_s() -> None:
    def event(n: int, params: str, passes: int = 0, by: str = "") -> bytes:
        ends = '"from":"p","to":"agent"' if passes else '"from":"client","to":"p"'
        own = f'"n":{n}' + (f',"passes":{passes}' if passes else "") + by
        return (
            f'{{"type":"notification","ts":{n}.0,"protocol":"acp",{ends},"method":"m",'
            f'"params":{params},"_conductor":{{"bytes":1,{own}}}}}\n'
        ).encode()

    spelled = ['{"b":"\\u00e9","a":1}', '{ "a": 1, "b": "é" }', '{"a":1.0,"b":"é"}']
    passed = [event(2, spelled[1], 1), event(3, spelled[2], 1)]
    by_conductor = event(4, spelled[2], 1, ',"by":"conductor"')
    made = read([event(1, spelled[0]), *passed, by_conductor])
    changes = [None, Change.SAME, Change.CHANGED, Change.SAME]
    assert [made.change(number) for number in range(4)] == changes


WAYS: Final = {
    "in": '"from":"client","to":"p"',
    "out": '"from":"p","to":"agent"',
    "back": '"from":"agent","to":"p"',
    "home": '"from":"p","to":"client"',
    "log": '"from":"p","to":"conductor"',
}


def test_a_turn_that_an_update_ends_and_what_it_cost() -> None:
    """The agent works until it is idle; a component that holds the update has it from then on."""

    def line(ts: float, kind: str, ends: str, n: int, **members: Any) -> bytes:
        source, target = ends.split()
        made = {
            "type": kind, "ts": ts, "from": source, "to": target, **members,
            "_conductor": {"n": n, **members.pop("own", {})},
        }  # fmt: skip
        return json.dumps(made).encode() + b"\n"

    def update(ts: float, ends: str, n: int, own: dict[str, int], **update: Any) -> bytes:
        params = {"sessionId": "s", "update": update}
        named = {"method": "session/update", "session": "s", "params": params}
        return line(ts, "notification", ends, n, own=own, **named)

    prompt = {"method": "session/prompt", "session": "s", "params": {"prompt": []}}
    cost = {"sessionUpdate": "usage_update", "cost": {"amount": 0.25, "currency": "EUR"}}
    too_much = {"sessionUpdate": "usage_update", "cost": {"amount": 10**400, "currency": "EUR"}}
    idle = {"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"}
    tokens = {"inputTokens": 5, "outputTokens": 4, "cachedReadTokens": 3, "thoughtTokens": 2}
    inserted = {"payload": {"messageId": "m", "usage": tokens}}
    made = read(
        [
            line(1.0, "request", "client p", 1, id=1, **prompt),
            line(2.0, "request", "p agent", 2, id=2, own={"passes": 1}, **prompt),
            line(3.0, "response", "agent p", 3, id=2, own={"of": 2}, **inserted),
            line(3.0, "response", "p client", 4, id=1, own={"of": 1, "passes": 3}, **inserted),
            update(4.0, "agent p", 5, {}, **cost),
            update(4.0, "agent p", 8, {}, **too_much),
            update(5.0, "agent p", 6, {}, **idle),
            update(9.0, "p client", 7, {"passes": 6}, **idle),
        ]
    )
    turn = made.turns[1]
    assert (turn.ms, turn.stop) == (8000.0, "end_turn")
    assert {share.component: share.ms for share in turn.shares} == {"p": 5000.0, "agent": 3000.0}
    assert turn.usage == Usage(input=5, output=4, cached=3, thought=2, cost=0.25, currency="EUR")


def test_a_number_that_nobody_can_hold_hides_no_update() -> None:
    """Nor does a stranger's update that nobody can read end a reader."""
    sent = b'{"update":{"sessionUpdate":"tool_call","toolCallId":"t","rawInput":[%b]}}'
    for rest, held in ((b"1e999", True), (b"[" * 9999 + b"]" * 9999, False), (b'"\xff"', True)):
        update = read_update("session/update", Raw(sent % rest))
        assert (update is not None and update.word("toolCallId") == "t") is held


@pytest.mark.parametrize("first", ["tool_call", "tool_call_update"])
def test_tool_calls_and_words_count_once_in_either_version_of_acp(first: str) -> None:
    """In ACP v2 a tool call begins with an update, and a message comes whole once more."""

    def line(ts: float, update: dict[str, Any]) -> bytes:
        made = {"type": "notification", "ts": ts, "from": "agent", "to": "client",
                "method": "session/update", "session": "s",
                "params": {"sessionId": "s", "update": update}}  # fmt: skip
        return json.dumps({**made, "_conductor": {"n": int(ts)}}).encode() + b"\n"

    def words(kind: str, *texts: str) -> dict[str, Any]:
        content: Any = [{"type": "text", "text": text} for text in texts]
        content = content if kind == "agent_message" else content[0]
        return {"sessionUpdate": kind, "messageId": "m", "content": content}

    tool = {"toolCallId": "t", "status": "completed"}
    prompt = {"type": "request", "ts": 0.0, "from": "client", "to": "agent", "id": 1,
              "method": "session/prompt", "session": "s", "params": {"prompt": []},
              "_conductor": {"n": 9}}  # fmt: skip
    made = read(
        [
            json.dumps(prompt).encode() + b"\n",
            line(1.0, {"sessionUpdate": first, **tool}),
            line(2.0, {"sessionUpdate": "tool_call_update", **tool}),
            line(3.0, {"sessionUpdate": first, "toolCallId": "u"}),
            line(4.0, words("agent_message_chunk", "one ")),
            line(5.0, words("agent_message", "one ", "two")),
        ]
    )
    turn = made.turns[1]
    assert (turn.tools, turn.answer, turn.tokens_out) == (2, "one two", 2)


def test_the_content_of_a_tool_call_comes_in_chunks() -> None:
    """As ACP v2 has it: text goes on with the text before. A part without room is left out."""
    prompt = {"type": "request", "ts": 0.0, "from": "client", "to": "agent", "id": 1,
              "method": "session/prompt", "session": "s", "params": {"prompt": []}}  # fmt: skip
    image = {"type": "content", "content": {"type": "image", "data": ""}}
    chunks = [{"type": "content", "content": {"type": "text", "text": text}} for text in ("a", "b")]
    large = {"type": "content", "content": {"type": "image", "data": "x" * 300_000}}
    kinds = ["tool_call_update", *["tool_call_content_chunk"] * 5]
    updates = [
        {"sessionUpdate": kind, "toolCallId": "t", **({"content": part} if part else {})}
        for kind, part in zip(kinds, [None, *chunks, image, large, chunks[0]], strict=True)
    ]
    lines = [
        {"type": "notification", "ts": 1.0, "from": "agent", "to": "client",
         "method": "session/update", "params": {"sessionId": "s", "update": update}}
        for update in updates
    ]  # fmt: skip
    made = read([json.dumps(line).encode() + b"\n" for line in (prompt, *lines)])
    _, tool = made.detail(1).items
    whole = {"type": "content", "content": {"type": "text", "text": "ab"}}
    assert json.loads(bytes(tool.blocks)) == [whole, image, chunks[0]]


def test_a_prompt_that_comes_again_past_a_failed_component_is_one_turn() -> None:
    prompt = {"method": "session/prompt", "session": "s", "params": {"prompt": []}}

    def line(ts: float, kind: str, ends: str, **members: Any) -> bytes:
        source, target = ends.split()
        made = {"type": kind, "ts": ts, "from": source, "to": target, **members}
        return json.dumps(made).encode() + b"\n"

    error = {"is_error": True, "payload": {"code": -32603, "message": "it trapped"}}
    lost = {"n": 2, "of": 1, "lost": True}
    made = read(
        [
            line(1.0, "request", "client p", id=1, **prompt, _conductor={"n": 1}),
            line(2.0, "response", "p client", id=1, **error, _conductor=lost),
            line(2.1, "request", "client agent", id=2, **prompt, _conductor={"n": 1}),
            line(3.0, "response", "agent client", id=2, payload={"stopReason": "end_turn"},
                 _conductor={"n": 3, "of": 1}),
        ]
    )  # fmt: skip
    assert [(turn.stop, turn.failed) for turn in made.turns[1:]] == [("end_turn", False)]
    assert made.detail(1).turn.shares[0].changed == 0
    assert [item.kind for item in made.detail(1).items] == ["prompt"]


def test_moments_that_overlap_count_once() -> None:
    """A component that holds a prompt for a second, and in it a notification, took a second."""

    def event(kind: str, ts: float, who: str, own: str, rest: str = "") -> bytes:
        ends = WAYS[who]
        return f'{{"type":"{kind}","ts":{ts},{ends},{rest}"_conductor":{{{own}}}}}\n'.encode()

    prompt = '"method":"session/prompt","session":"s","id":%d,"params":{},'
    note = '"method":"m","session":"s","params":{},'
    answer = '"id":%d,"is_error":false,"payload":{"stopReason":"end_turn"},'
    made = read([
        event("request", 1.0, "in", '"n":1', prompt % 1),
        event("notification", 1.2, "in", '"n":2', note),
        event("notification", 1.4, "out", '"n":3,"passes":2', note),
        event("request", 2.0, "out", '"n":4,"passes":1', prompt % 2),
        event("response", 5.0, "back", '"n":5,"of":4', answer % 2),
        event("response", 5.5, "home", '"n":6,"of":1,"passes":5,"way":250.0', answer % 1),
    ])  # fmt: skip
    (turn,) = made.turns[1:]
    assert {share.component: share.ms for share in turn.shares} == {"p": 1250.0, "agent": 3000.0}
    assert [visit.ms for visit in made.detail(1).visits] == [1000.0, 200.0, 250.0]
    assert turn.ms == 4500.0
    look_at_all(made)


@pytest.mark.parametrize(
    ("got", "sent", "change", "edited"),
    [
        (["a", "b"], ["a", "b"], Change.SAME, []),
        (["a", "b"], ["ab"], Change.SAME, []),
        (["ab"], ["aXb"], Change.CHANGED, [("ab", "aXb")]),
        ([], ["ab"], Change.ORIGINATED, []),
        (["ab"], [], Change.DROPPED, []),
        (["ab"], ["abc" * 700_000], Change.CHANGED, []),
    ],
)
def test_what_a_component_makes_of_the_agents_words(
    got: list[str], sent: list[str], change: Change, edited: list[tuple[str, str]]
) -> None:
    """The chunks of a component are one visit, however it cuts them. A very long text is not
    compared."""
    prompt = {"type": "request", "ts": 0.0, "from": "client", "to": "p", "id": 1,
              "method": "session/prompt", "session": "s", "params": {"prompt": []},
              "_conductor": {"n": 1}}  # fmt: skip
    lines = [prompt]
    for way, texts in (({"from": "agent", "to": "p"}, got), ({"from": "p", "to": "client"}, sent)):
        for text in texts:
            content = {"type": "text", "text": text}
            update = {"sessionUpdate": "agent_message_chunk", "content": content}
            n = len(lines) + 1
            lines.append({"type": "notification", "ts": n * 1.0, **way, "method": "session/update",
                          "session": "s", "params": {"sessionId": "s", "update": update},
                          "_conductor": {"n": n}})  # fmt: skip
    made = read([json.dumps(line).encode() + b"\n" for line in lines])
    (visit,) = (one for one in made.detail(1).visits if one.method == "session/update")
    assert (visit.component, visit.change) == ("p", change)
    assert [(edit.before, edit.after) for edit in visit.edits] == edited


def test_a_question_that_a_component_answers_and_a_pause_before_the_turn() -> None:
    def event(kind: str, ts: float, who: str, own: str, rest: str) -> bytes:
        ends = WAYS[who]
        return f'{{"type":"{kind}","ts":{ts},{ends},{rest}"_conductor":{{{own}}}}}\n'.encode()

    prompt = '"method":"session/prompt","session":"s","id":%d,"params":{},'
    options = '[{"optionId":"n","name":"Reject","kind":"reject_once"}]'
    asks = '"method":"session/request_permission","id":9,"params":{"toolCall":{"title":"Edit .env"}'
    says_no = '"id":9,"payload":{"outcome":{"outcome":"selected","optionId":"n"}},'
    answer = '"id":%d,"is_error":false,"payload":{"stopReason":"end_turn"},'
    warns = '"method":"log","params":{"level":"warn","message":"refused: rule 1"},'
    event_of = '{"type":"_conductor","ts":%s,"happened":{"event":"%s","component":"p"}}\n'

    def turn(at: float, n: int) -> list[bytes]:
        return [
            event("request", at, "in", f'"n":{n}', prompt % 1),
            event("request", at + 1, "out", f'"n":{n + 1},"passes":{n}', prompt % 2),
            event("request", at + 1.5, "back", f'"n":{n + 2}', f'{asks},"options":{options}}},'),
            event("notification", at + 1.7, "log", f'"n":{n + 6}', warns),
            event("response", at + 1.75, "out", f'"n":{n + 3},"of":{n + 2}', says_no),
            event("response", at + 2, "back", f'"n":{n + 4},"of":{n + 1}', answer % 2),
            event("response", at + 4, "home", f'"n":{n + 5},"of":{n},"passes":{n + 4}', answer % 1),
        ]

    paused = [
        (event_of % (number, what)).encode() for number, what in ((9, "pause"), (10, "resume"))
    ]
    made = read([*turn(1, 1), *paused])
    assert [item.text for item in made.detail(1).items if item.kind == "notice"] == [
        "refused: rule 1",
        "pause",
        "resume",
    ]
    made = read([*turn(1, 1), *paused, *turn(20, 11)])
    assert [[item.kind for item in made.detail(number).items] for number in (1, 2)] == [
        ["prompt", "notice", "refusal"], ["notice", "notice", "prompt", "notice", "refusal"],
    ]  # fmt: skip
    (refusal,) = (item for item in made.detail(1).items if item.kind == "refusal")
    assert (refusal.component, refusal.text, refusal.status) == ("p", "Edit .env", "Reject")
    assert [item.text for item in made.detail(2).items][-2:] == ["refused: rule 1", "Edit .env"]
    assert made.turns[1].events == (0, 7)
    assert made.turns[1].way_ms == 0
    assert [share.says for share in made.turns[1].shares] == ["answered 1 question for you", ""]
    look_at_all(made)


def test_the_head_says_what_is_not_in_a_trace() -> None:
    """Of a file of a ring that it begins in mid-session; and who is the agent, before any event."""
    chain = '[{"name":"p","role":"proxy"},{"name":"demo","role":"agent"}]'
    begin = f'{{"type":"_conductor","components":["p","demo"],"content":"all","chain":{chain}'
    prompt = '"type":"request","ts":1,"from":"client","to":"agent","id":1,"_conductor":{"n":1}'
    head = read([f"{begin}}}\n".encode()]).head()
    later = read([f"{begin}}}\n".encode(), f"{{{prompt}}}\n".encode()]).head()
    assert head.components == later.components == ("client", "p", "agent")
    without_content = '{"type":"_conductor","components":["p","demo"],"content":"none"}\n'
    roleless = read([without_content.encode(), f"{{{prompt}}}\n".encode()]).head()
    assert roleless.components == ("client", "p", "agent")
    assert not head.ring
    rings = []
    for older in ("true", "false"):
        ring = f'"ring":{{"why":"SIGUSR2","began":"now","forgotten":{older}}}'
        rings.append(read([f"{begin},{ring}}}\n".encode()]).head().ring)
    assert rings == [
        "a ring (SIGUSR2): it begins in mid-session, older messages are not in it",
        "a ring (SIGUSR2): it has all since the start",
    ]


@pytest.mark.parametrize(
    ("began", "known"), [("0", None), ("-1", None), ("1e10", None), ("1e300", None), ("5.5", 5.5)]
)
def test_a_time_that_no_trace_began_at_is_none(began: str, known: float | None) -> None:
    head = f'{{"type":"_conductor","components":["a"],"content":"all","began":{began}}}\n'
    assert read([head.encode()]).head().began == known


def test_what_is_added_to_a_very_large_prompt_is_an_edit_of_its_own() -> None:
    large = '{"type":"text","text":"%s"}' % ("a \\u00e9" * 200_000)
    before = f'{{"sessionId":"s","prompt":[{large}]}}'.encode()
    after = f'{{"sessionId":"s","prompt":[{{"type":"text","text":"date"}},{large}]}}'.encode()
    assert edits.in_words(edits.edits(before, after)) == "added 1 block"
    changed = before.replace(b"a \\u00e9" * 5, b"b" * 5, 1)
    (edit,) = edits.edits(before, changed)
    assert (edit.op, edit.what, edit.after) == ("changed", "message", "bbbbb")
    assert edits.text_of(before).startswith("a éa éa é")


# -- broken ones -----------------------------------------------------------------------------------


GARBAGE: Final = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([
        b"", b"\n", b"{}", b"[]", b"null", b'{"type":"request"}', b'{"type":"_conductor"}',
        b'{"type":"_conductor","verdict":{"component":7}}',
        b'{"type":"_conductor","components":["a","a","client"],"content":"x"}',
        b'{"type":"response","ts":1,"from":"a","to":"b","id":null,"payload":7}',
        b'{"type":"request","ts":-5,"from":"a","to":"b","id":1,"method":"session/prompt"}',
        b'{"type":"request","ts":1e300,"from":"a","to":"b","id":1,"method":"m","params":{}}',
        b'{"type":"request","ts":NaN,"from":"a","to":"b"}',
        b"[" * 5000,
        (b'{"type":"notification","ts":1,"from":"a","to":"client","method":"session/update",'
         b'"params":{"update":{"sessionUpdate":"plan","entries":[1,{"status":[]}]}}}'),
        (b'{"type":"request","ts":1,"from":"agent","to":"client","id":[],'
         b'"method":"session/request_permission","params":{"options":[{"optionId":[1]}]}}'),
    ]),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.booleans(), st.integers(0), st.integers(0, 400), st.integers(0, 400),
       st.lists(st.tuples(st.integers(0, 200), GARBAGE), max_size=6), st.booleans())  # fmt: skip
def test_no_lines_are_too_bad(
    reference: bool,
    seed: int,
    begin: int,
    cut: int,
    garbage: list[tuple[int, bytes]],
    shuffled: bool,
) -> None:
    lines = (theirs() if reference else ours())[begin : begin + 100]
    if shuffled:
        random.Random(seed).shuffle(lines)  # noqa: S311 - no secret
    if lines:
        lines[seed % len(lines)] = lines[seed % len(lines)][:cut]
    for place, line in garbage:
        lines.insert(place, line)
    look_at_all(read(lines))


def test_what_a_trace_makes_a_reader_keep_is_bounded() -> None:
    """However many names, sessions, turns and open requests there are, and however long."""
    made, held = reader.held(1_000_000)
    tracemalloc.start()
    for number in range(1_500):
        name = f"{number}" + "n" * 20_000
        line = json.dumps({
            "type": "request", "ts": float(number), "from": name, "to": f"{name}x", "id": name,
            "method": name, "session": name, "params": {"prompt": [{"text": name}]},
        }).encode()  # fmt: skip
        held.append(line)
        made.take(line)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 8_000_000  # of 180 MB
    assert len(made.components) < 1_010


def test_of_many_open_requests_the_oldest_are_not_waited_for() -> None:
    asked = b'{"type":"request","ts":1,"from":"a","to":"b","id":%d,"method":"m","params":{}}\n'
    said = b'{"type":"response","ts":2,"from":"b","to":"a","id":%d,"is_error":false,"payload":1}\n'
    made = read([*(asked % number for number in range(10_050)), said % 49, said % 50])
    assert [row.pair for row in made.rows(10_050, 2)] == [-1, 50]


@pytest.mark.parametrize(
    ("result", "stop"),
    [
        ({}, "ended"),
        ({"stopReason": "max_tokens"}, "max_tokens"),
        ({"stopReason": "refusal"}, "refusal"),
    ],
)
def test_how_a_turn_ended(result: dict[str, str], stop: str) -> None:
    ends = {"ts": 1.0, "from": "client", "to": "agent", "id": 1}
    prompt = {**ends, "type": "request", "method": "session/prompt", "session": "s", "params": {}}
    answer = {"type": "response", "ts": 2.0, "from": "agent", "to": "client", "id": 1}
    lines = [prompt, {**answer, "is_error": False, "payload": result}]
    made = read([json.dumps(line).encode() + b"\n" for line in lines])
    assert [turn.stop for turn in made.turns[1:]] == [stop]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"hello\nworld\n", "is no trace"),
        (b'{"level":"info","msg":"another program"}\n' * 50, "is no trace"),
        (b"\x00" * 100_000, "is no trace"),
        (b'{"type":"_conductor","format":2,"components":[]}\n', "this conductor reads 1"),
        (None, "cannot read the trace"),
    ],
)
def test_a_file_that_is_no_trace(
    tmp_path: Path, content: bytes | None, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f"
    if content is not None:
        path.write_bytes(content)
    assert main(["log", "show", str(path)]) == 2
    error_text = capsys.readouterr().err
    assert error in error_text
    assert "\nhint: " in error_text


def test_a_trace_that_was_cut_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut"
    text = recorded.trace().read_bytes()
    path.write_bytes(b"garbage\n" + text[: len(text) // 2])
    ran = conductor("log", "show", str(path))
    assert (ran.code, ran.err) == (0, "")
    assert "gap: line 1 is no event" in ran.out
    assert "gap: the last line is cut off" in ran.out
    assert "\nTurn 1  " in ran.out


def test_no_text_of_a_trace_is_obeyed_by_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def evil(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: evil(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [evil(each, key) for each in value]
        spared = key in ("type", "method", "sessionUpdate", "from", "to", "protocol", "format")
        return value + EVIL if isinstance(value, str) and not spared else value

    path = tmp_path / "evil"
    lines = [json.loads(line) for line in ours()]
    for line in lines:
        for end in ("from", "to"):
            if line.get(end) in ("redact", "datetime"):
                line[end] += EVIL
    path.write_text("".join(f"{json.dumps(evil(line))}\n" for line in lines), encoding="utf-8")
    for arguments in ("show", "show --all", "stats", "stats --json"):
        assert main(["log", *arguments.split(), str(path)]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert "onerror" in shown.out or arguments == "stats"  # it cuts long names
        assert not set(shown.out) & set("\x1b\x07\r\u202e\x9b"), arguments


# -- turns that nobody asked for -------------------------------------------------------------------


def test_what_nobody_asked_for_is_a_turn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 0

    def line(kind: str, source: str, target: str, passes: int = 0, **more: object) -> bytes:
        nonlocal count
        count += 1
        own = {"n": count} | ({"passes": passes} if passes else {})
        held = {"type": kind, "ts": count, "from": source, "to": target, "session": "s", **more}
        return json.dumps({**held, "_conductor": own}).encode() + b"\n"

    def prompt(source: str, target: str, text: str, passes: int = 0) -> bytes:
        params = {"sessionId": "s", "prompt": [{"type": "text", "text": text}]}
        more = {"id": count, "method": "session/prompt", "params": params}
        return line("request", source, target, passes, **more)

    def answer(of: int, source: str, target: str) -> bytes:
        nonlocal count
        count += 1
        held = {"type": "response", "ts": count, "from": source, "to": target, "id": of - 1}
        own = {"n": count, "of": of}
        return json.dumps(
            {**held, "payload": {"stopReason": "end_turn"}, "_conductor": own}
        ).encode()

    def said(source: str, target: str, text: str, passes: int = 0) -> bytes:
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": "s", "update": update}
        return line("notification", source, target, passes, method="session/update", params=params)

    def mark() -> bytes:
        update = {
            "sessionUpdate": "session_info_update",
            "_meta": {"conductor.turn": {"state": "idle"}},
        }
        params = {"sessionId": "s", "update": update}
        return line("notification", "p", "client", method="session/update", params=params)

    head = b'{"type":"_conductor","components":["p","a"],"content":"all"}\n'
    lines = [
        head,
        *(line("request", "client", "p", id=0, method="session/load"), said("p", "client", "old")),
        answer(1, "p", "client"),
        *(prompt("client", "p", "hi"), prompt("p", "agent", "hi", 4), answer(5, "agent", "p")),
        answer(4, "p", "client"),
        *(prompt("p", "agent", "own"), said("agent", "p", "yes"), answer(8, "agent", "p")),
        *(said("p", "client", "yes", 9), said("agent", "client", " past it"), mark()),
        *(said("agent", "p", "late"), said("p", "client", "late", 14), said("p", "client", "mine")),
        prompt("client", "p", "next"),
    ]
    made = read(lines)
    look_at_all(made)
    turns = [(turn.by, turn.prompt, turn.answer, turn.ms) for turn in made.turns[1:]]
    assert turns == [
        ("", "hi", "", 3000.0),
        ("p", "own", "yes past it", 4000.0),
        ("agent", "", "latemine", 1000.0),
        ("", "next", "", None),
    ]
    items = [(item.kind, item.text, item.component) for item in made.detail(2).items]
    assert items == [("prompt", "own", "p"), ("text", "yes past it", "")]
    file = tmp_path / "t.jsons"
    file.write_bytes(b"".join(each.rstrip() + b"\n" for each in lines))
    assert main(["log", "show", str(file)]) == 0
    assert "Turn 2 by p, unprompted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "turns"),
    [
        *((kind, 1) for kind in ("agent_message_chunk", "agent_message")),
        *((kind, 1) for kind in ("agent_thought_chunk", "agent_thought")),
        *((kind, 1) for kind in ("tool_call", "plan", "notice")),
        *((kind, 0) for kind in ("tool_call_update", "usage_update", "user_message_chunk")),
    ],
)
def test_only_updates_that_a_person_reads_begin_such_a_turn(kind: str, turns: int) -> None:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind}}
    said = {"type": "notification", "ts": 1, "from": "agent", "to": "client", "session": "s"}
    line = {**said, "method": "session/update", "params": params, "_conductor": {"n": 1}}
    head = b'{"type":"_conductor","components":["agent"],"content":"all"}\n'
    assert len(read([head, json.dumps(line).encode()]).turns[1:]) == turns


def test_a_file_that_was_written_anew_is_another(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b'{"began":1}\n')
    lines = FileLines(str(path))
    assert lines.next()
    for content, is_same in ((b'{"began":1}\n{}\n', True), (b'{"began":2}\n{}\n', False)):
        path.write_bytes(content)  # of the same file
        assert lines.is_of(str(path)) == is_same
