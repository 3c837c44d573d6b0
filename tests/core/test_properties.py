"""Rules that hold whatever the peers do: a state machine is every peer of a chain, without a loop.

Each rule says one thing and asserts every effect of it, byte for byte: fresh ids on every link and
none that leaves it, payloads as they were, one answer for each request, order, determinism.
"""

import json
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from conductor.core import DIALECTS, Closure, Component, Effect, Fail, LogLine, Send
from conductor.core.router import Router
from tests.harness.router.actors import FORMS

KINDS: Final = ("acp", "sdk", "sacp", "pacp", "channel")

# -- odd JSON, as bytes ----------------------------------------------------------------------------

LEAVES: Final = (
    b"1.10",
    b"1e400",
    b"-0",
    b"-0.0",
    b"123456789012345678901234567890",
    b"1E+2",
    b"null",
    b"true",
    b'""',
    b'"\\u0061\\/"',
    b'"\\ud800"',
    b'"\\uDFFF\\ud83d\\uDE00"',
    '"é😀"'.encode(),
    b'"}]\\""',
)
SPACE: Final = st.sampled_from([b"", b" ", b"\t  "])


def arrays(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Arrays of `inner`, with white space."""
    return st.builds(
        lambda items, space: b"[" + space + (space + b"," + space).join(items) + b"]",
        st.lists(inner, max_size=3),
        SPACE,
    )


def objects(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Objects of `inner`, with white space and repeated names."""
    names = st.sampled_from([b'"a"', b'"a"', b'"\\ud800"', b'"method"', b'"proxy"', b'"_meta"'])
    pairs = st.lists(st.tuples(names, inner), max_size=3)
    return st.builds(
        lambda items, space: (
            b"{" + b",".join(n + space + b":" + v for n, v in items) + space + b"}"
        ),
        pairs,
        SPACE,
    )


def containers(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Either."""
    return arrays(inner) | objects(inner)


VALUES: Final = st.recursive(st.sampled_from(LEAVES), containers, max_leaves=6)
PARAMS: Final = st.none() | containers(VALUES)
METHODS: Final = st.sampled_from(["session/prompt", "_x", "a\n/é"])

# -- the forms of frames, written down independently -----------------------------------------------


class Port(NamedTuple):
    """A side of a peer."""

    peer: str
    side: str


class Request(NamedTuple):
    """A request that is open."""

    origin: Port
    raw: bytes
    target: Port
    raw_at_target: bytes
    method: str


def frame(kind: str, port: Port, way: str, parts: tuple[bytes | None, str, bytes | None]) -> bytes:
    """The frame of a message on a side of a peer of this kind, `way` up or down; with newline."""
    id_, method, params = parts
    body = b'"method":' + json.dumps(method, ensure_ascii=False).encode()
    if params is not None:
        body += b',"params":' + params
    tag = port.side.encode() if kind == "channel" else b""
    if kind in FORMS and port.side == "s":
        form = FORMS[kind]
        what = "request" if id_ is not None else "notification"
        envelope = getattr(form, f"{way}_{what}").encode()
        inner = b'{"message":{%b}}' % body if form.nested else b"{%b}" % body
        body = b'"method":"%b","params":%b' % (envelope, inner)
    head = b'"jsonrpc":"2.0",' + (b'"id":%b,' % id_ if id_ is not None else b"")
    return tag + b"{" + head + body + b"}\n"


class ChainMachine(RuleBasedStateMachine):
    """Every peer of one chain."""

    @initialize(kinds=st.lists(st.sampled_from(KINDS), max_size=3), proxy_mode=st.booleans())
    def build(self, kinds: list[str], proxy_mode: bool) -> None:
        """Makes a chain and initializes it."""
        self.kinds = {f"p{n}": kind for n, kind in enumerate(kinds)}
        self.mode = "proxy" if proxy_mode else "agent"
        self.played: list[tuple[str, Any]] = []
        self.effects: list[list[Effect]] = []
        self.router = self.fresh_router()
        self.joined: dict[Port, Port] = {}
        self.requests: list[Request] = []
        self.cancelled: set[tuple[Port, bytes]] = set()
        self.ids: dict[tuple[str, str], set[bytes]] = {}
        self.secrets: list[bytes] = []
        self.closed: set[str] = set()
        self.failed = False
        left = Port("client", "p")
        for name in self.kinds:
            self.join(left, Port(name, "p"))
            left = Port(name, "s")
        self.kinds["client"] = "acp-outer" if proxy_mode else "plain"
        if not proxy_mode:
            self.kinds["agent"] = "plain"
        self.join(left, Port("client", "s") if proxy_mode else Port("agent", "p"))
        self.begin()

    def fresh_router(self) -> Router:
        """A fresh router for the same chain."""
        names = [name for name in self.kinds if name not in ("client", "agent")]
        components = [Component(name, dialect=DIALECTS[self.kinds[name]]) for name in names]
        if self.mode == "agent":
            components.append(Component("agent"))
        return Router(components, self.mode)

    def join(self, one: Port, other: Port) -> None:
        """Joins two ports."""
        self.joined[one], self.joined[other] = other, one

    def begin(self) -> None:
        """Walks `initialize` through the chain; other tests look at its effects."""
        method = "proxy/initialize" if self.mode == "proxy" else "initialize"
        params = b'{"protocolVersion":1,"_meta":{"proxy":true}}'
        self.play("client", frame("plain", Port("client", "p"), "", (b"0", method, params)))
        proxies = [name for name in self.kinds if name not in ("client", "agent")]
        for name in proxies:
            said = self.wire(Port(name, "s"), (b'"init"', "initialize", params))
            self.play(name, said)
        if self.mode == "agent":
            self.answer_initialize(Port("agent", "p"))
        else:
            self.answer_initialize(Port("client", "s"))
        for name in reversed(proxies):
            self.answer_initialize(Port(name, "p"))
        assert self.router.pending() == 0

    def answer_initialize(self, port: Port) -> None:
        """Answers the one request that is open on a fresh link."""
        tag = port.side.encode() if self.kinds[port.peer] == "channel" else b""
        answer = b'{"jsonrpc":"2.0","id":1,"result":{"_meta":{"proxy":true}}}'
        self.play(port.peer, tag + answer)

    # -- helpers -------------------------------------------------------------------------------

    def play(self, peer: str, line: bytes) -> list[Effect]:
        """Says a line; the effects that are no notes."""
        effects = self.router.receive(peer, line.rstrip(b"\n"))
        self.played.append((peer, line.rstrip(b"\n")))
        self.effects.append(effects)
        return [effect for effect in effects if not isinstance(effect, LogLine)]

    def wire(self, port: Port, parts: tuple[bytes | None, str, bytes | None]) -> bytes:
        """The frame a peer says."""
        kind = self.kinds[port.peer]
        if kind == "acp-outer":
            return frame("acp", port, "up", parts)
        return frame(kind, port, "down", parts)

    def expected(self, port: Port, parts: tuple[bytes | None, str, bytes | None]) -> Send:
        """The frame that a peer must get."""
        kind = self.kinds[port.peer]
        if kind == "acp-outer":
            return Send(port.peer, frame("acp", port, "down", parts))
        return Send(port.peer, frame(kind, port, "up", parts))

    def plain(self, port: Port, body: bytes) -> bytes:
        """A frame that never wears an envelope."""
        tag = port.side.encode() if self.kinds[port.peer] == "channel" else b""
        return tag + b'{"jsonrpc":"2.0",' + body + b"}\n"

    def link(self, port: Port) -> tuple[str, str]:
        """The id space a port belongs to."""
        return (port.peer, port.side if self.kinds[port.peer] == "channel" else "")

    def a_port(self, number: int) -> Port:
        """A port of a peer that is there."""
        ports = [port for port in self.joined if port.peer not in self.closed]
        return ports[number % len(ports)]

    def is_open(self) -> bool:
        """Whether a request can be answered."""
        return any(one.target.peer not in self.closed for one in self.requests)

    def an_open(self, number: int) -> Request:
        """A request whose target is there."""
        found = [one for one in self.requests if one.target.peer not in self.closed]
        return found[number % len(found)]

    def is_alive(self) -> bool:
        """Whether anybody is left."""
        return any(port.peer not in self.closed for port in self.joined)

    # -- rules ---------------------------------------------------------------------------------

    @precondition(is_alive)
    @rule(number=st.integers(0), method=METHODS, params=PARAMS)
    def notify(self, number: int, method: str, params: bytes | None) -> None:
        """A notification comes out at the other end, as it was."""
        port = self.a_port(number)
        target = self.joined[port]
        effects = self.play(port.peer, self.wire(port, (None, method, params)))
        there = target.peer not in self.closed
        assert effects == ([self.expected(target, (None, method, params))] if there else [])

    @precondition(is_alive)
    @rule(number=st.integers(0), method=METHODS, params=PARAMS, integer=st.booleans())
    def request(self, number: int, method: str, params: bytes | None, integer: bool) -> None:
        """A request comes out under a fresh id; to one who is gone it is answered at once."""
        port = self.a_port(number)
        target = self.joined[port]
        raw = b"%d" % (7_000_000 + len(self.secrets)) if integer else b'"id-%d"' % len(self.secrets)
        self.secrets.append(raw)
        effects = self.play(port.peer, self.wire(port, (raw, method, params)))
        if target.peer in self.closed:
            self.assert_failed(effects, port, raw)
            return
        (send,) = effects
        assert isinstance(send, Send)
        told = json.loads(send.frame.lstrip(b"ps"))
        fresh = b"%d" % told["id"]
        assert fresh not in self.ids.setdefault(self.link(target), set())
        self.ids[self.link(target)].add(fresh)
        assert send == self.expected(target, (fresh, method, params))
        assert raw not in send.frame
        self.requests.append(Request(port, raw, target, fresh, method))

    def assert_failed(self, effects: list[Effect], port: Port, raw: bytes) -> None:
        """Asserts a single error, under the asker's id."""
        (send,) = effects
        assert isinstance(send, Send)
        assert send.peer == port.peer
        start = self.plain(port, b'"id":%b,"error":{"code":-32603,' % raw)[: -len(b"}\n")]
        assert send.frame.startswith(start)

    @precondition(is_open)
    @rule(number=st.integers(0), method=METHODS)
    def request_again(self, number: int, method: str) -> None:
        """An id that is in use is refused under null; the first is unharmed."""
        one = self.an_open(number)
        if one.origin.peer in self.closed:
            return
        (send,) = self.play(one.origin.peer, self.wire(one.origin, (one.raw, method, None)))
        assert isinstance(send, Send)
        assert send.peer == one.origin.peer
        refusal = json.loads(send.frame.lstrip(b"ps"))
        assert (refusal["id"], refusal["error"]["code"]) == (None, -32600)

    @precondition(is_open)
    @rule(number=st.integers(0), error=st.booleans(), value=VALUES, message=objects(VALUES))
    def answer(self, number: int, error: bool, value: bytes, message: bytes) -> None:
        """An answer comes back under the asker's own id, as it was."""
        one = self.an_open(number)
        self.requests.remove(one)
        body = b'"error":' + message if error else b'"result":' + value
        said = self.plain(one.target, b'"id":%b,' % one.raw_at_target + body)
        effects = self.play(one.target.peer, said)
        if one.origin.peer in self.closed:
            assert effects == []
        else:
            told = self.plain(one.origin, b'"id":%b,' % one.raw + body)
            assert effects == [Send(one.origin.peer, told)]

    @precondition(is_open)
    @rule(
        number=st.integers(0),
        body=st.sampled_from([b'"x":1', b'"error":1', b'"result":1,"error":{}']),
    )
    def answer_badly(self, number: int, body: bytes) -> None:
        """A malformed answer is an error for the asker."""
        one = self.an_open(number)
        self.requests.remove(one)
        said = self.plain(one.target, b'"id":%b,' % one.raw_at_target + body)
        effects = self.play(one.target.peer, said)
        if one.origin.peer in self.closed:
            assert effects == []
        else:
            self.assert_failed(effects, one.origin, one.raw)

    @precondition(is_alive)
    @rule(number=st.integers(0), raw=st.sampled_from([b"0", b'"x"', b"null", b"99999"]))
    def answer_nobody(self, number: int, raw: bytes) -> None:
        """Nobody hears of an answer to no request; with one request open, that request is meant."""
        port = self.a_port(number)
        if [one.target.peer for one in self.requests].count(port.peer) == 1:
            return
        assert self.play(port.peer, self.plain(port, b'"id":%b,"result":1' % raw)) == []

    @precondition(is_open)
    @rule(number=st.integers(0), wrapped=st.booleans())
    def cancel(self, number: int, wrapped: bool) -> None:
        """A cancel reaches the target once, under the id it knows."""
        one = self.an_open(number)
        if one.origin.peer in self.closed:
            return
        params = b'{"requestId":%b}' % one.raw
        said = self.plain(one.origin, b'"method":"$/cancel_request","params":' + params)
        if wrapped:
            said = self.wire(one.origin, (None, "$/cancel_request", params))
        effects = self.play(one.origin.peer, said)
        assert effects == self.expected_cancel(one)
        self.cancelled.add((one.origin, one.raw))

    def expected_cancel(self, one: Request) -> list[Effect]:
        """The cancel that a target must be told, if it has not been."""
        if (one.origin, one.raw) in self.cancelled or one.target.peer in self.closed:
            return []
        params = b'"params":{"requestId":%b}' % one.raw_at_target
        told = self.plain(one.target, b'"method":"$/cancel_request",' + params)
        return [Send(one.target.peer, told)]

    @precondition(is_alive)
    @rule(number=st.integers(0), raw=st.sampled_from([b"0", b'"x"', b"null", b"1.0", b"[]"]))
    def cancel_nothing(self, number: int, raw: bytes) -> None:
        """A cancellation of no request is dropped."""
        port = self.a_port(number)
        params = b'"params":{"requestId":%b}' % raw
        assert (
            self.play(port.peer, self.plain(port, b'"method":"$/cancel_request",' + params)) == []
        )

    @precondition(is_alive)
    @rule(number=st.integers(0), line=st.binary(max_size=40))
    def babble(self, number: int, line: bytes) -> None:
        """Whatever the bytes, nothing is raised, and no other peer hears of them."""
        port = self.a_port(number)
        for effect in self.play(port.peer, line.replace(b"\n", b"")):
            assert isinstance(effect, Send)
            assert effect.peer == port.peer

    @precondition(is_alive)
    @rule(number=st.integers(0))
    def close(self, number: int) -> None:
        """All that waits for a peer that ends is answered; all it asked for is withdrawn."""
        name = self.a_port(number).peer
        reason = Closure(f"{name} ended")
        effects = self.router.closed(name, reason)
        self.played.append((name, reason))
        self.effects.append(effects)
        waiting = [one for one in self.requests if one.target.peer == name]
        asked = [one for one in self.requests if one.origin.peer == name and one not in waiting]
        self.closed.add(name)
        told = [effect for effect in effects if isinstance(effect, Send)]
        # Nothing is sent to who is gone, although in an empty chain that asks itself.
        owed = [one for one in waiting if one.origin.peer not in self.closed]
        for one in owed:
            key = self.plain(one.origin, b'"id":%b,"error":' % one.raw)[: -len(b"}\n")]
            (match,) = [s for s in told if s.peer == one.origin.peer and s.frame.startswith(key)]
            told.remove(match)
        cancels = [effect for one in asked for effect in self.expected_cancel(one)]
        assert sorted(told, key=repr) == sorted(cancels, key=repr)
        fails = name != "client" and not self.failed
        assert [e for e in effects if not isinstance(e, Send)] == (
            [Fail(name, reason)] if fails else []
        )
        self.failed |= fails
        self.cancelled |= {(one.origin, one.raw) for one in asked}
        self.requests = [one for one in self.requests if one not in waiting]

    @rule(number=st.integers(0), line=st.sampled_from([b"{}", b"junk"]))
    def say_when_gone(self, number: int, line: bytes) -> None:
        """Frames after a peer's end have no effect, and a peer ends once."""
        for name in sorted(self.closed)[: number % 3]:
            assert self.router.receive(name, line) == []
            assert self.router.closed(name, Closure("again")) == []

    def teardown(self) -> None:
        """The same inputs have the same effects, and the books are balanced."""
        if not hasattr(self, "router"):
            return
        for name in self.kinds:
            mine = [one for one in self.requests if one.origin.peer == name]
            assert self.router.pending(name) == (0 if name in self.closed else len(mine))
        again = self.fresh_router()
        for (name, what), effects in zip(self.played, self.effects, strict=True):
            if isinstance(what, Closure):
                assert again.closed(name, what) == effects
            else:
                assert again.receive(name, what) == effects


TestChain = pytest.mark.timeout(300)(ChainMachine.TestCase)
TestChain.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


# -- more of the same ------------------------------------------------------------------------------

MESSAGES: Final = st.tuples(st.none() | st.just("request"), METHODS, PARAMS)


@given(st.lists(MESSAGES, max_size=8))
def test_what_waits_for_a_dialect_keeps_its_order(
    messages: list[tuple[str | None, str, bytes | None]],
) -> None:
    router = Router([Component("p"), Component("agent")])
    router.receive("client", frame("plain", Port("client", "p"), "", (b"0", "initialize", V1)))
    for number, (kind, method, params) in enumerate(messages):
        id_ = b"%d" % (number + 1) if kind else None
        line = frame("plain", Port("client", "p"), "", (id_, method, params))
        assert router.receive("client", line) == []
    effects = router.receive("p", b'{"jsonrpc":"2.0","id":1,"result":{}}')
    told = [effect.frame for effect in effects if isinstance(effect, Send) and effect.peer == "p"]
    fresh = iter(range(2, 99))
    assert told == [
        frame("plain", Port("p", "p"), "", (b"%d" % next(fresh) if kind else None, method, params))
        for kind, method, params in messages
    ]


V1: Final = b'{"protocolVersion":1}'

FRAGMENTS: Final = st.sampled_from(
    [
        b'"jsonrpc":"2.0"',
        b'"id":1',
        b'"id":null',
        b'"id":"\\ud800"',
        b'"id":1e2',
        b'"method":"_x"',
        b'"method":"initialize"',
        b'"method":"proxy/initialize"',
        b'"method":"proxy/successor"',
        b'"method":"_proxy/successor/send/request"',
        b'"method":"_scp/proxy"',
        b'"method":"\\ud800"',
        b'"method":"$/cancel_request"',
        b'"method":"_conductor/clock"',
        b'"method":5',
        b'"params":null',
        b'"params":{"protocolVersion":1}',
        b'"params":{"requestId":1}',
        b'"params":{"method":"_x"}',
        b'"params":{"method":"initialize","params":{"protocolVersion":1,"_meta":{"proxy":true}}}',
        b'"params":{"message":{"method":"proxy/successor"}}',
        b'"params":5',
        b'"params":[[[[[[]]]]]]',
        b'"params":{"protocolVersion":1,"_meta":{"symposium":{"proxy":true}}}',
        b'"result":{}',
        b'"result":{"_meta":{"proxy":true}}',
        b'"error":null',
        b'"error":{"code":-32601,"message":1}',
        b'"error":{"code":1e400}',
        b'"\\ud800":"\\udc00"',
        b'"x":1,',
        b"{",
        b'"',
    ]
)
OBJECTS: Final = st.lists(FRAGMENTS, max_size=5).map(lambda parts: b"{" + b",".join(parts) + b"}")
LINES: Final = st.one_of(
    OBJECTS,
    st.lists(OBJECTS, max_size=3).map(lambda all_: b"[" + b",".join(all_) + b"]"),
    st.binary(),
)


@pytest.mark.proves("from anybody to the conductor")
@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(["agent", "proxy", "auto"]),
    st.lists(st.sampled_from([*DIALECTS, None]), max_size=2),
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([b"", b"p", b"s", b"c"]), LINES)),
)
def test_nothing_is_ever_raised(
    mode: str, kinds: list[str | None], lines: list[tuple[int, bytes, bytes]]
) -> None:
    components = [
        Component(f"p{n}", dialect=DIALECTS[kind] if kind else None) for n, kind in enumerate(kinds)
    ]
    router = Router([*components, Component("z")], mode)
    names = list(router.peers)
    for number, side, line in lines:
        name = names[number % len(names)]
        tag = side if router.peers[name].sideband else b""
        for effect in router.receive(name, tag + line):
            if isinstance(effect, Send):
                assert effect.frame.endswith(b"\n")
                router.undeliverable(effect.peer, effect.frame, "no")
        router.skipped(name, tag + line, "long")
    for name in names:
        router.closed(name, Closure("over", "", {"exitCode": 1}))
        router.closed(name, Closure("over"))
        assert router.pending(name) == 0
