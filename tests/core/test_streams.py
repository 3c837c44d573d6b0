"""Streams: which lines go on many at a time, and where they go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pytest

from conductor.core import Closure, Component, Effect, Router, Send
from conductor.core.accounts import Allowance
from conductor.core.dialects import ACP, CHANNEL
from tests.harness.router.actors import dump
from tests.harness.router.policed import CARRY_TEXT, chain_of, guest, request, trusted

UPDATE: Final = b'{"jsonrpc":"2.0","method":"session/update","params":'
TEXT: Final = b'{"sessionId":"S","update":{"sessionUpdate":"agent_message_chunk"}}'


def _limited() -> Router:
    quiet = Component("agent", "agent `agent`", limited=True)
    router = Router([quiet])
    router.receive("client", dump(request(1, "initialize", {"protocolVersion": 1})))
    router.receive("agent", b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}')
    return router


def _referring() -> Router:
    allowance = Allowance(text_bytes=16)
    return chain_of(Component("g", "proxy `g`", CHANNEL, allowance=allowance)).router


def _closed() -> Router:
    router = chain_of(trusted("g")).router
    router.closed("agent", Closure("gone"))
    return router


def _paused() -> Router:
    router = chain_of(guest()).router
    router.pause("g", paused=True)
    return router


CHAINS: Final[dict[str, Callable[[], Router]]] = {
    "no proxy": lambda: chain_of().router,
    "a host": lambda: chain_of(trusted("g")).router,
    "a program": lambda: chain_of(trusted("g", "sacp")).router,
    "a policy": lambda: chain_of(guest(CARRY_TEXT)).router,
    "past a policy": lambda: chain_of(guest()).router,
    "past two policies": lambda: chain_of(guest(), trusted("t"), guest(name="h")).router,
    "past a program": lambda: chain_of(guest(kind="sacp")).router,
    "a copy": lambda: chain_of(guest(COPY_TEXT)).router,
    "copies of tool calls": lambda: chain_of(guest("up:session/update[tool_call]:copy")).router,
    "a session of its own": lambda: chain_of(guest(grants="turns=unprompted")).router,
    "paused": _paused,
    "an audit": lambda: chain_of(guest(), audited=["g"]).router,
    "version 2": lambda: chain_of(version=2).router,
    "a trace": lambda: chain_of(tracing=True).router,
    "no mode yet": lambda: Router([Component("agent")], "auto"),
    "not initialized": lambda: Router([Component("agent")]),
    "not ready": lambda: Router([Component("g", dialect=ACP), Component("agent")]),
    "limited turns": _limited,
    "references": _referring,
    "closed": _closed,
    "silent so far": lambda: chain_of().router,
    "flat": lambda: chain_of(max_depth=4).router,
}

COPY_TEXT: Final = "up:session/update[agent_message_chunk]:copy"


def of(kind: str, more: str = "") -> bytes:
    """The params of an update of a kind."""
    return f'{{"sessionId":"S","update":{{"sessionUpdate":"{kind}"{more}}}}}'.encode()


def made(chain: str) -> Router:
    """One of the chains, of which the agent has spoken."""
    router = CHAINS[chain]()
    if chain != "silent so far":
        router.receive("agent", UPDATE + TEXT + b"}")
    return router


def routed(router: Router, name: str, lines: Sequence[bytes]) -> list[Effect]:
    """What comes of lines, the first of which go on as a stream if they can."""
    taken, effects = router.stream(name, lines), list[Effect]()
    if taken is not None:
        target, frames = taken
        effects += [Send(target, frame) for frame in frames]
        lines = lines[len(frames) :]
    return effects + [effect for line in lines for effect in router.receive(name, line)]


@pytest.mark.parametrize("chain", CHAINS)
def test_a_stream_is_what_its_messages_are(chain: str) -> None:
    line, other = UPDATE + TEXT + b"}", UPDATE + of("plan") + b"}"
    broken = [UPDATE + params for params in (b'{"a":01}}', b'{"a":"\xff"}}', b"1}", b"{} }")]
    call = UPDATE + '{"text":"grüße"}}'.encode()
    for lines in ([line, line, other], [call, line], *([line, each, line] for each in broken)):
        quick, slow = made(chain), made(chain)
        expected = [effect for each in lines for effect in slow.receive("agent", each)]
        assert routed(quick, "agent", lines) == expected
        assert quick.received == slow.received


def taken(router: Router, name: str, *lines: bytes) -> int:
    """How many of the lines go on as a stream."""
    found = router.stream(name, lines)
    return 0 if found is None else len(found[1])


def test_what_goes_on_as_a_stream() -> None:
    line = UPDATE + TEXT + b"}"
    alone = made("no proxy")
    assert taken(alone, "agent", line, line, b'{"jsonrpc":"2.0","id":1,"result":{}}', line) == 2
    assert taken(alone, "agent", UPDATE + b"{} }", line) == 0
    hosted = made("a host")
    assert hosted.stream("agent", [line]) == ("g", [b"s" + line + b"\n"])
    assert hosted.stream("g", [b"p" + line, b"s" + line]) == ("client", [line + b"\n"])
    assert taken(hosted, "g", b"c" + line) == 0
    assert taken(made("flat"), "agent", line, UPDATE + b"[[[[[]]]]]}") == 1
    for name in ("past a policy", "past two policies", "past a program"):
        commands = UPDATE + of("available_commands_update") + b"}"
        assert taken(made(name), "agent", line, line, commands, line) == 2, name
    call = UPDATE + of("tool_call") + b"}"
    assert taken(made("copies of tool calls"), "agent", line, call) == 1
    ways = {"a policy", "a copy", "paused", "an audit", "a trace", "version 2", "limited turns"}
    for name in ways | {"references", "a program", "closed", "silent so far", "no mode yet"}:
        assert taken(made(name), "agent", line) == 0, name


def test_no_stream_overtakes_what_a_component_holds() -> None:
    router, text = chain_of(guest(CARRY_TEXT)).router, UPDATE + TEXT + b"}"
    plan = UPDATE + of("plan") + b"}"
    router.receive("agent", text)
    assert taken(router, "agent", plan) == 0
    router.receive("g", b"p" + text)
    assert taken(router, "agent", plan) == 1


def test_a_line_for_which_there_is_no_memory_goes_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Full(bytes):
        def __add__(self, other: object) -> bytes:
            raise MemoryError

    router = made("no proxy")
    upstream = router.peers["agent"].p.across
    assert upstream is not None
    monkeypatch.setattr(upstream.writer, "tag", Full())
    assert taken(router, "agent", UPDATE + TEXT + b"}") == 0
