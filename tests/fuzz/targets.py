"""What is fuzzed: functions of any bytes that return, or raise when something is wrong.

Hypothesis feeds them in `test_targets.py`, a coverage-guided fuzzer in `guided.py`. Each reads its
input in a form that suits small changes: what a stranger writes is in it as it would be written,
and before that stands a byte or two that chooses among situations.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import wasmtime

import wasm_host
from conductor.core.policy import NO_PROFILE, PROFILES, Direction, Policy, Rule, Verb
from conductor.transports.framing import LineSplitter
from tests.core.test_noninterference import check_answers, check_untouched
from tests.core.worlds import DOWN, NOTIFIED, UP, Step, World
from tests.wasm_host.support import GUESTS, HOSTILE, assemble, wasm
from wasm_host.info import info_of

from .checked import Run
from .material import CONVERSATIONS, CORPUS, HERE, router

Target = Callable[[bytes], None]


class Fuzzed(NamedTuple):
    """One target: what it is called with, and what a fuzzer starts from."""

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


# -- a policed component ----------------------------------------------------------------------

_RULED: Final = (*DOWN, *UP, "$/cancel_request")
_SESSIONS: Final = ("S", "S", "T", None)
_STEPS: Final = 12


def policed(data: bytes) -> None:
    """A guest that does as it likes, under any policy: what it may not touch is as without it.

    A byte for the profile; for none of them a byte of verbs a method and direction; a byte for the
    number of steps, two a step; the rest is what the guest decides.
    """
    rest = iter(data)
    policy = _policy(rest)
    script = [_step(next(rest, 0), next(rest, 0)) for _ in range(next(rest, 0) % _STEPS)]
    rounds = bool(next(rest, 0) % 2)
    world = World(policy, [byte % 60 for byte in rest], rounds=rounds)
    world.run(script)
    check_untouched(policy, world.client, world.agent)
    check_untouched(policy, world.agent, world.client)
    check_answers(world)


def _policy(rest: Iterator[int]) -> Policy:
    profiles = (*PROFILES, NO_PROFILE)
    profile = profiles[next(rest, 0) % len(profiles)]
    if profile != NO_PROFILE:
        return Policy(profile)
    rules = [
        Rule(direction, method, Verb(next(rest, 0) % 16))
        for direction in Direction
        for method in _RULED
    ]
    return Policy(NO_PROFILE, tuple(rules))


def _step(what: int, how: int) -> Step:
    who = ("client", "agent")[what % 2]
    methods = DOWN if who == "client" else UP
    method = methods[what // 2 % len(methods)]
    asks = method not in NOTIFIED and (not method.startswith("_") or bool(how & 1))
    return Step(who, method, _SESSIONS[how // 4 % len(_SESSIONS)], asks, bool(how & 2))


def _policed_seeds() -> Iterator[bytes]:
    script = bytes((10, 0, 2, 1, 0, 3, 3, 5, 1, 2, 2, 4, 7, 6, 0, 8, 3, 1, 9, 7, 2))
    for profile in range(len(PROFILES)):
        yield bytes((profile,)) + script + bytes(range(60))
        yield bytes((profile,)) + script
    for verbs in range(0, 16, 3):
        masks = bytes((verbs + at) % 16 for at in range(len(_RULED) * len(Direction)))
        yield bytes((len(PROFILES),)) + masks + script + bytes(range(60))


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
    """A guest that returns any pointer and length, by both ways to call it.

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
    outcomes = [_exchange(way, head, lines) for way in ("fast", "public")]
    assert outcomes[0] == outcomes[1]
    said = outcomes[0]
    if isinstance(said, bytes):
        assert not wild
        assert said == memory[pointer : pointer + length]
        _contract(said)
    elif wild:
        assert "wild pointer" in said or "was not delivered" in said


def _exchange(way: str, head: bytes, lines: bytes) -> bytes | str:
    """What the puppet returns, or how that was refused."""
    guest = _puppet().instantiate("it", calls=way)
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
    """What a guest said, as docs/channel-abi.md has it, in plain words."""
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
    """Reading a file of any content: it is described or refused, and what is said of it is true."""
    try:
        info = info_of(data, "it")
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
    "conversation": Fuzzed(conversation, _conversation_seeds),
    "policed": Fuzzed(policed, _policed_seeds),
    "boundary": Fuzzed(boundary, _boundary_seeds),
    "module": Fuzzed(module, _module_seeds),
}
"""Every target by name."""


def starts(name: str) -> list[bytes]:
    """What fuzzing a target starts from: its seeds, and the files of its folder in `corpus/`."""
    kept = [path.read_bytes() for path in sorted((HERE / "corpus" / name).glob("*"))]
    return [*TARGETS[name].seeds(), *kept]
