"""The targets of fuzzing: functions of any bytes that return, or raise when something is wrong.

Hypothesis feeds them in `test_targets.py`, a coverage-guided fuzzer in `guided.py`. Each reads its
input in a form that suits small changes: what a stranger writes is in it as it would be written,
and before that stands a byte or two that chooses among situations.
"""

import functools
import json
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import msgspec
import wasmtime
from msgspec import Raw

import wasm_host
from conductor.core import DIALECTS, Component, Send, guards
from conductor.core.policy.headings import heading, inner_method
from conductor.core.policy.key_table import MCP_FAMILIES, UPDATE
from conductor.core.policy.rules import Grants, Policy, Rule
from conductor.core.router import Router, RouterOptions
from conductor.link import Limits, Link, LinkError
from conductor.link.packets import read
from conductor.link.packets import write as written
from conductor.transports.framing import LineSplitter
from tests.core.test_noninterference import check
from tests.fuzz.checked import Run
from tests.fuzz.material import CONVERSATIONS, CORPUS, HERE, router
from tests.harness.router.rules import PROFILES, held, policy_of
from tests.harness.world.ends import DOWN, UP, Step, asks, params_of
from tests.harness.world.policies import KEYS, KINDS
from tests.harness.world.world import Cast, World, check_nothing_is_held
from tests.link.support import footprint
from tests.places import HOSTILE
from tests.wasm_host.support import GUESTS, assemble, wasm
from wasm_host.info import info_of

Target = Callable[[bytes], None]


class Fuzzed(NamedTuple):
    """A target: its function, and the inputs from which a fuzzer starts."""

    run: Target
    seeds: Callable[[], Iterator[bytes]]


# -- framing ---------------------------------------------------------------------------------


def framing(data: bytes) -> None:
    """The line splitter: a byte for the limit, one for the size of the chunks, then the stream."""
    limit, step, stream = (*data[:2], 1, 1)[0] + 1, (*data[1:2], 1)[0] + 1, data[2:]
    splitter = LineSplitter(limit)
    found: list[bytes] = []
    for at in range(0, len(stream), step):
        found += splitter.feed(stream[at : at + step])
    last = splitter.end()
    lines = [line for line in stream.split(b"\n") if line]
    assert [*found, *([last] if last else [])] == [line for line in lines if len(line) <= limit]
    assert len(splitter.oversized) == sum(len(line) > limit for line in lines)


def _framing_seeds() -> Iterator[bytes]:
    for step in (0, 7, 255):
        yield bytes((40, step)) + b"\n".join(CORPUS.values())


# -- links ------------------------------------------------------------------------------------

BOUNDS: Final = Limits(packet=1024, window=3000, frame=2000, queue=2000, acked=3)


def packets(data: bytes) -> None:
    """Plays one end of a link: each line is a packet of the other end; at an empty line the owner
    sends and writes."""
    link = Link("e", BOUNDS)
    link.linked()
    for line in data.split(b"\n"):
        if not line and link.failure is None:
            with suppress(LinkError):
                link.send(b"x" * 1500)
            while (packet := link.take()) is not None:
                assert written(b"e", read(b"e", packet, BOUNDS.packet)) == packet
            continue
        with suppress(LinkError):
            for frame in link.received(line):
                assert len(frame.decode().encode()) <= BOUNDS.frame
        with suppress(LinkError):
            assert written(b"e", read(b"e", line, BOUNDS.packet)) == line
        assert footprint(link) < 4 * (BOUNDS.window + BOUNDS.frame + 2 * BOUNDS.queue)


def _packets_seeds() -> Iterator[bytes]:
    greeting = b"hello e 1 0 3000 1\nwelcome e 1 0 3000 1\n\n"
    yield (
        greeting
        + b"frame e 1 1 3000 2 {}\nack e 2 9000\n\npart e 2 2 9000 1 x\nframe e 3 2 9000 0 "
    )
    yield greeting + b"frame e 2 0 3000 2 {}\nframe e 1 0 3000 2 []\nframe e 1 0 3000 2 []\n"
    yield greeting + b"hello e 2 1 3000 2\nwelcome e 2 1 3000 1\nframe f 1 0 3000 2 {}\nack e 1 9\n"
    yield b"ack e 0 9\n" + greeting + b"ack e 9 9\nframe e 999999999999999999 0 1 1 \xc3\n"


# -- the router ------------------------------------------------------------------------------

NAMES: Final = sorted(CONVERSATIONS)
PEERS: Final = ("client", "p1", "agent", "p1/successor")


def conversation(data: bytes) -> None:
    """The router: a byte for the situation, then lines that begin with a digit for who says it."""
    name = NAMES[data[0] % len(NAMES)] if data else NAMES[0]
    run = Run(router(name), tagged=name.startswith("channel"))
    for line in data[1:].split(b"\n"):
        if line:
            run.say(PEERS[line[0] % len(PEERS)], line[1:])
    run.end()


def _conversation_seeds() -> Iterator[bytes]:
    for at, name in enumerate(NAMES):
        said = CONVERSATIONS[name]
        lines = [b"%d%b" % (_digit(peer), frame) for peer, frame in said]
        yield bytes((at,)) + b"\n".join(lines)
    for frame in CORPUS.values():
        said = CONVERSATIONS[NAMES[0]][:2]
        lines = [b"%d%b" % (_digit(each.peer), each.frame) for each in said]
        yield b"\0" + b"\n".join([*lines, b"1" + frame, b"0" + frame])


def _digit(peer: str) -> int:
    """The digit a line of this peer begins with; `0` itself is a multiple of four."""
    return PEERS.index(peer)


# -- policed components -----------------------------------------------------------------------

_SESSIONS: Final = ("S", "S", "T", None)
_PAUSES: Final = (0, 1, 1, 3)
_STEPS: Final = 12
_KINDS: Final = ("channel", *KINDS)


def policed(data: bytes) -> None:
    """A component that does as it likes, under any policy: what goes past it is as without it.

    A byte for the set of rights; for `none` a byte of rights a key; a byte for the component's
    dialect, one for how it is played, one for the number of steps, two a step; the rest is what the
    component decides.
    """
    rest = iter(data)
    policy = _policy(rest)
    kind, how = _KINDS[next(rest, 0) % len(_KINDS)], next(rest, 0)
    script = [_step(next(rest, 0), next(rest, 0)) for _ in range(next(rest, 0) % _STEPS)]
    if how & 1:
        policy = msgspec.structs.replace(policy, ids="kept")
    cast = Cast(policy, tuple(rest), kind, bool(how & 1))
    version = 2 if how & 8 else 1
    world = World(cast, rounds=bool(how & 2), slow=bool(how & 4), version=version)
    world.play_out(script)
    check_nothing_is_held(world)
    world.leave()
    check(world)


def _policy(rest: Iterator[int]) -> Policy:
    name = SETS[next(rest, 0) % len(SETS)]
    if name != "none":
        return held(name)
    rules = [Rule(*key, next(rest, 0) % 64) for key in KEYS]
    return Policy(tuple(rules), ALL_GRANTS if next(rest, 0) % 2 else Grants())


SETS: Final = sorted(PROFILES)
ALL_GRANTS: Final = Grants(
    turns="unprompted",
    commands=("review",),
    permission="narrow",
    mcp="others",
    sessions="own",
    options=True,
    methods=("_*",),
    texts=True,
)


def _step(what: int, how: int) -> Step:
    who = ("client", "agent")[what % 2]
    keys = DOWN if who == "client" else UP
    key = keys[what // 2 % len(keys)]
    asked = asks(key, either=bool(how & 1))
    return Step(who, key, _SESSIONS[how // 8 % 4], asked, _PAUSES[how // 2 % 4])


def _policed_seeds() -> Iterator[bytes]:
    steps = bytes((10, 0, 2, 1, 0, 3, 3, 5, 1, 2, 2, 4, 7, 6, 0, 8, 3, 1, 9, 7, 2))
    for each in range(len(SETS)):
        for kind in range(len(_KINDS)):
            yield bytes((each, kind, kind)) + steps + bytes(range(60))
    for rights in range(0, 64, 9):
        masks = bytes((rights + at) % 64 for at in range(len(KEYS)))
        none = SETS.index("none")
        yield bytes((none,)) + masks + bytes((rights % 2, 0, 2)) + steps + bytes(range(60))


def lines(data: bytes) -> None:
    """A policed router that is told anything: it never raises, nothing stays open, and who looks on
    changes nothing. A byte for the set of rights, one for the dialect, then lines as above."""
    rest = iter(data[:2])
    policy = policy_of(SETS[next(rest, 0) % len(SETS)], grants=ALL_GRANTS)
    kind = _KINDS[next(rest, 0) % len(_KINDS)]
    sent = []
    for looking in ({}, {"audited": ("p1",)}, {"tracing": True}):
        components = [Component("p1", dialect=DIALECTS[kind], policy=policy), Component("agent")]
        run = Run(Router(components, options=RouterOptions(**looking)), tagged=kind == "channel")
        for line in data[2:].split(b"\n"):
            if line:
                run.say(PEERS[line[0] % len(PEERS)], line[1:])
        run.end()
        sent.append([one for one in run.effects if isinstance(one, Send)])
    assert sent[0] == sent[1] == sent[2]


def _lines_seeds() -> Iterator[bytes]:
    for at, kind in enumerate(_KINDS):
        name = f"{kind}-agent"
        said = b"\n".join(b"%d%b" % (_digit(peer), frame) for peer, frame in CONVERSATIONS[name])
        for each in range(len(SETS)):
            yield bytes((each, at)) + said


# -- what a policy reads of a message ----------------------------------------------------------


def headings(data: bytes) -> None:
    """The subject of a message: the method, a newline, the params."""
    name, _, params = data.partition(b"\n")
    method = name.decode(errors="replace")
    found = heading(method, Raw(params))
    assert found == heading(method, Raw(params))
    assert inner_method(method, Raw(params)) is None or method.startswith(MCP_FAMILIES)
    if method == UPDATE:
        assert found.key.startswith(f"{UPDATE}[")
        assert found.key.endswith("]")
    else:
        assert found.key == method
    try:
        held = json.loads(params.decode())
    except (ValueError, RecursionError):
        return
    session = held.get("sessionId") if type(held) is dict else None
    plain = type(session) is str and session.isascii() and params.count(b"sessionId") == 1
    assert found.session == session if plain and method != UPDATE else True
    assert found.session is None or found.session == session


def _headings_seeds() -> Iterator[bytes]:
    for who, keys in (("client", DOWN), ("agent", UP)):
        for at, key in enumerate(dict.fromkeys(keys)):
            params = params_of(Step(who, key, "S", True), at)
            yield key.partition("[")[0].encode() + b"\n" + json.dumps(params).encode()


_WAYS: Final = ("down", "up")
_MEMBERS: Final = (b"result", b"error")
_NAMES: Final = frozenset(guard.name for guard in guards.GUARDS)


def guarded(data: bytes) -> None:
    """The guards: a byte for the direction and what else there is; then lines: the method, what was
    given, what is sent, and what came back. What they let pass keeps what it must, as a plain
    reader finds."""
    how = (*data[:1], 0)[0]
    parts = [*data[1:].split(b"\n", 3), b"", b"", b"", b""][:4]
    method, given, sent = parts[0].decode(errors="replace"), Raw(parts[1]), Raw(parts[2])
    way = _WAYS[how & 1]
    context = guards.Context(
        grants=ALL_GRANTS if how & 2 else Grants(),
        folders=("/w",),
        commands=frozenset({"/plan"}),
        sessions=frozenset({"S"}),
        servers=frozenset({"mine"}),
        foreign=frozenset({"others"}),
    )
    assert guards.forwarded(context, way, method, given, given) is None
    found = guards.forwarded(context, way, method, given, sent)
    _sound(found)
    if found is None and given != sent:
        _kept(method, bytes(given), bytes(sent), commands=bool(how & 2))
    _sound(guards.originated(context, way, method, sent))
    member = _MEMBERS[how >> 2 & 1]
    upstream = (_MEMBERS[how >> 3 & 1], parts[3]) if how & 16 else None
    found = guards.answered(context, way, method, given, member, bytes(sent), upstream)
    _sound(found)
    assert upstream is None or upstream[0] == member or found is not None
    for addresses in (guards.declared(method, sent), guards.connected(method, sent)):
        assert all(type(one) is str for one in addresses)


def _sound(found: guards.Violation | None) -> None:
    assert found is None or found.guard in _NAMES
    assert found is None or len(found.pointer) <= 500


def _kept(method: str, given: bytes, sent: bytes, *, commands: bool) -> None:
    """Checks, with a plain reader, a message that was changed and let pass."""
    before, after = json.loads(given), json.loads(sent)
    if type(before) is not dict or type(after) is not dict:
        return
    assert before.get("sessionId") == after.get("sessionId")
    if method == "session/prompt" and not commands:
        assert _command(after) in (_command(before), None)
    if method in ("session/new", "session/load"):
        assert before.get("cwd") == after.get("cwd")
    if method == "session/request_permission":
        assert before.get("toolCall") == after.get("toolCall")
        options = after.get("options")
        assert type(options) is not list or all(one in before["options"] for one in options)


def _command(params: dict[str, Any]) -> str | None:
    """The command that an agent would take a prompt for, if any."""
    blocks = params.get("prompt")
    texts = [
        one["text"]
        for one in (blocks if type(blocks) is list else ())
        if type(one) is dict and one.get("type") == "text" and type(one.get("text")) is str
    ]
    found = re.match(r"/[a-z]+(?=\s|$)", texts[0]) if texts else None
    return found[0] if found else None


def _guarded_seeds() -> Iterator[bytes]:
    for way, (who, keys) in enumerate((("client", DOWN), ("agent", UP))):
        for at, key in enumerate(dict.fromkeys(keys)):
            params = params_of(Step(who, key, "S", True), at)
            given = json.dumps(params).encode()
            params["_meta"] = {**params["_meta"], "example.com/a": 1}
            sent = json.dumps(params).encode()
            method = key.partition("[")[0].encode()
            for how in (0, 2, 4, 16, 24):
                yield bytes((way + how,)) + b"\n".join((method, given, sent, b"{}"))
    for text in ("/plan", "hi /yolo", "@/etc/passwd", "", "/review x"):
        was = json.dumps({"sessionId": "S", "prompt": [{"type": "text", "text": "hi"}]})
        now = json.dumps({"sessionId": "S", "prompt": [{"type": "text", "text": text}]})
        yield b"\0session/prompt\n" + f"{was}\n{now}\n{{}}".encode()


# -- the boundary of a guest ------------------------------------------------------------------

_PAGE: Final = 65536
_HEAD: Final = struct.Struct("<IQ")
_LIMITS: Final = wasm_host.Limits(
    memory_bytes=_PAGE, message_bytes=300, outbox_bytes=1000, messages_per_delivery=9, json_depth=9
)
PUPPET: Final = """
(module
  (memory (export "memory") 1 1)
  (global $at (mut i32) (i32.const 0))
  (global $answer (mut i64) (i64.const 0))
  (global $set (mut i32) (i32.const 0))
  (func (export "channel_abi") (result i32) (i32.const 1))
  (func (export "channel_reserve") (param i32) (result i32) (global.get $at))
  (func (export "channel_deliver") (param $from i32) (param i32) (result i64)
    (if (global.get $set) (then (return (global.get $answer))))
    (global.set $set (i32.const 1))
    (global.set $at (i32.load (local.get $from)))
    (global.set $answer (i64.load offset=4 (local.get $from)))
    (i64.const 0)))
"""
"""Where it wants its second delivery, and where it says its answer to that is, is what its first
delivery says."""


@functools.cache
def _puppet() -> wasm_host.Module:
    return wasm_host.load(assemble(PUPPET), limits=_LIMITS)


def boundary(data: bytes) -> None:
    """A guest that returns any pointer and length.

    Four bytes for where the delivery goes and eight for the answer, then the delivery.
    """
    head, lines = data[: _HEAD.size].ljust(_HEAD.size, b"\0"), data[_HEAD.size :]
    at, answer = _HEAD.unpack(head)
    memory = bytearray(_PAGE)
    memory[: len(head)] = head
    pointer, length = answer >> 32, answer & 0xFFFFFFFF
    wild = at + len(lines) > _PAGE or pointer + length > _PAGE
    if not wild:
        memory[at : at + len(lines)] = lines
    said = _exchange(head, lines)
    if isinstance(said, bytes):
        assert not wild
        assert said == memory[pointer : pointer + length]
        _contract(said)
    elif wild:
        assert "wild pointer" in said or "not delivered" in said


def _exchange(head: bytes, lines: bytes) -> bytes | str:
    """The lines that the puppet returns, or the refusal."""
    guest = _puppet().instantiate("it")
    try:
        guest.start(b"")
        assert guest.deliver(head) == b""
        return guest.deliver(lines)
    except wasm_host.LimitRefused as refused:
        assert not guest.dead  # it has not seen it
        return str(refused)
    except wasm_host.GuestError as error:
        assert guest.dead
        return str(error)
    finally:
        guest.close()


def _contract(said: bytes) -> None:
    """Checks a guest's lines by docs/architecture.md#the-channel, in plain words."""
    if not said:
        return
    *lines, end = said.split(b"\n")
    assert end == b""
    assert len(said) <= _LIMITS.outbox_bytes
    assert len(lines) <= _LIMITS.messages_per_delivery
    for line in lines:
        assert line[:1] in (b"p", b"s", b"c")
        assert 1 < len(line) < _LIMITS.message_bytes
        assert _depth(line) <= _LIMITS.json_depth


def _depth(line: bytes) -> int:
    """How deep brackets outside strings nest, read one byte after the other."""
    depth = deepest = 0
    quoted = escaped = False
    for code in line:
        if quoted:
            quoted, escaped = escaped or code != 0x22, not escaped and code == 0x5C
        elif code == 0x22:
            quoted = True
        elif code in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif code in b"}]":
            depth -= 1
    return deepest


def _boundary_seeds() -> Iterator[bytes]:
    lines = (
        b'p{"a":[1]}\n',
        b's{"a":"[[[["}\np{}\n',
        b"p" + b"[" * 20 + b"\n",
        b"x\n",
        b"p\n",
        b"p{",
    )
    for line in lines:
        for at in (64, _PAGE - len(line), _PAGE - 1, 0xFFFFFFFF):
            yield _HEAD.pack(at, at << 32 | len(line)) + line
    yield _HEAD.pack(64, 64 << 32 | 0xFFFFFFFF) + lines[0]
    yield _HEAD.pack(64, 0xFFFFFFFF << 32 | 1) + lines[0]


# -- what a file is ---------------------------------------------------------------------------

_MOST_COMPILED: Final = 4096


def module(data: bytes) -> None:
    """Reading a file of any content: it is described or refused, and the description is true."""
    try:
        info = info_of(data, "it", wasm_host.Limits())
    except wasm_host.LoadError:
        return
    assert info.size == len(data)
    if info.problems or len(data) > _MOST_COMPILED:
        return
    try:
        found = wasmtime.Module(_engine(), data)
    except wasmtime.WasmtimeError:
        return  # no module after all; `load` says so
    imports = {(one.module, one.name) for one in found.imports}
    assert imports == {(where, name) for where, name, _ in info.imports}
    assert not info.forbidden
    assert all(where.startswith("wasi_snapshot_preview1") for where, _ in imports)


@functools.cache
def _engine() -> wasmtime.Engine:
    return wasmtime.Engine()


def _module_seeds() -> Iterator[bytes]:
    yield assemble(PUPPET)
    for folder in (GUESTS, HOSTILE):
        for path in sorted(folder.glob("*.wat")):
            if "component" not in path.name:
                yield wasm(path)
    yield b"\0asm\1\0\0\0"


TARGETS: Final[dict[str, Fuzzed]] = {
    "framing": Fuzzed(framing, _framing_seeds),
    "packets": Fuzzed(packets, _packets_seeds),
    "conversation": Fuzzed(conversation, _conversation_seeds),
    "policed": Fuzzed(policed, _policed_seeds),
    "lines": Fuzzed(lines, _lines_seeds),
    "headings": Fuzzed(headings, _headings_seeds),
    "guarded": Fuzzed(guarded, _guarded_seeds),
    "boundary": Fuzzed(boundary, _boundary_seeds),
    "module": Fuzzed(module, _module_seeds),
}
"""Every target by name."""


def starts(name: str) -> list[bytes]:
    """The inputs from which fuzzing a target starts: its seeds, and the files of its folder in
    `corpus/`."""
    kept = [path.read_bytes() for path in sorted((HERE / "corpus" / name).glob("*"))]
    return [*TARGETS[name].seeds(), *kept]
