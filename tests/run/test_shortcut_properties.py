"""With the shortcut a host writes, byte for byte, what it writes without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wasm_host
from conductor.core.policy.policy_words import PolicyWords
from conductor.run import segment, segment_guests, shortcut
from conductor.run.segment import Segment
from conductor.run.segment_loop import ParentOutput
from conductor.run.segment_spec import GuestSpec, SegmentSpec
from tests.harness.router.actors import dump
from tests.harness.world.hosts import TapeGuest

Json = dict[str, Any]

NAMES: Final = "abcd"
SETS: Final = (*["full", "context"] * 4, "filter", "serve:tools", "trusted", "observer")
KINDS: Final = ("agent_message_chunk", "agent_thought_chunk", "plan", "tool_call", "state_update")
SET_UP: Final = (b'"method":"configure"', b'"id":1,', b'"id":2,')
"""Configuration, `initialize` and `session/new`, which go through."""
DIES, ENDS, REFUSES, CALLS, ADDS, NAMES_A_FILE, BREAKS = range(100, 107)
"""The acts of a guest beside those of a `TapeGuest`: see `Played`."""


class Played:
    """A guest: what its script says for each delivery, and else what its tape says."""

    carrier = "core"

    def __init__(self, name: str, script: list[int]) -> None:
        self.name, self.stderr, self.dead = name, "", False
        self._script = script
        self._tape = TapeGuest([step for step in script if step < DIES])
        self._starting = TapeGuest()
        self._refused = b""
        self._begun = False

    def instantiate(self, name: str) -> Played:
        """Itself: it stands for its module too."""
        assert name == self.name
        self.dead = False
        return self

    def start(self, data: bytes) -> bytes:
        """The guest says nothing at first."""
        return data[:0]

    def close(self) -> None:
        """The guest is freed."""
        self.dead = True

    def deliver(self, data: bytes) -> bytes:
        """Takes lines, and returns lines."""
        lines = data.splitlines()
        self._begun = self._begun or not any(mark in data for mark in SET_UP)
        if not self._begun:
            return self._heard(self._starting, lines)
        if data == self._refused:  # what it cannot take once, it cannot take again
            raise wasm_host.LimitRefused("deliver", f"{self.name} takes no such line")
        match self._script.pop(0) if self._script else 0:
            case 100:
                self.dead = True
                raise wasm_host.GuestError("deliver", f"{self.name} died")
            case 101:
                self.dead = True
            case 102:
                self._refused = data
                raise wasm_host.LimitRefused("deliver", f"{self.name} takes no such line")
            case 103:
                return dump_line("c", id=7, method="clock/now", params={}) + self._heard(
                    self._tape, lines
                )
            case 104 | 105 as what:
                text = "Today is Monday. " if what == ADDS else "/delete @/etc/passwd"
                block = b'"prompt":[{"type":"text","text":"%b"},' % text.encode()
                lines = [line.replace(b'"prompt":[', block, 1) for line in lines]
            case 106:
                return self._heard(self._tape, lines).replace(b'"prompt":', b'"prompt":\r', 1)
        return self._heard(self._tape, lines)

    @staticmethod
    def _heard(tape: TapeGuest, lines: list[bytes]) -> bytes:
        return b"".join(line + b"\n" for line in tape.hear(lines))


class Enveloping(Played):
    """A program for WASI that passes all on: it speaks the dialect `acp`, without side bytes."""

    carrier = "wasi"

    def __init__(self, name: str, script: list[int]) -> None:
        super().__init__(name, script)
        self._asked: dict[int, object] = {}

    def deliver(self, data: bytes) -> bytes:
        """Puts what comes from the client into envelopes, and takes answers out of them."""
        return b"".join(
            dump_line("", **self._passed(json.loads(line))) for line in data.splitlines()
        )

    def _passed(self, message: Json) -> Json:
        method = message.get("method", "")
        if method == "proxy/successor":  # from the agent
            return {name: message["params"][name] for name in ("method", "params")}
        if not method:
            return {**message, "id": self._asked.pop(message["id"])}
        number = len(self._asked) + 1000
        self._asked[number] = message["id"]
        inner = {"method": method.removeprefix("proxy/"), "params": message["params"]}
        return {"id": number, "method": "proxy/successor", "params": inner}


def dump_line(side: str, **message: object) -> bytes:
    """A line of the channel."""
    return side.encode() + dump({"jsonrpc": "2.0", **message}) + b"\n"


class Host:
    """A host of played guests; what the parent gets of each step."""

    def __init__(
        self,
        sets: list[str],
        scripts: list[list[int]],
        failing: str,
        *,
        short: bool,
        guest: type[Played] = Played,
    ) -> None:
        specs = [
            GuestSpec(name=name, policy=PolicyWords((held,)), on_failure=failing)
            for name, held in zip(NAMES, sets, strict=False)
        ]
        modules = {
            one.name: guest(one.name, list(script))
            for one, script in zip(specs, scripts, strict=False)
        }
        self._got: list[bytes] = []
        output = cast(
            "ParentOutput",
            SimpleNamespace(unsent=0, send=self._got.append, flush=lambda: None),
        )
        self.segment = Segment(
            SegmentSpec(specs), cast("dict[str, wasm_host.Module]", modules), output
        )
        if not short:
            self.segment._shortcut = None
        self.segment.start()
        self._settle()

    @property
    def kept(self) -> int:
        """The messages that its router may still have to learn."""
        return len(self.segment._shortcut._kept) if self.segment._shortcut else 0

    def _settle(self) -> None:
        for _ in range(1000):
            if self.segment.settle() != 0.0:
                return
        raise AssertionError("it never comes to an end")

    def say(self, *lines: bytes) -> list[bytes]:
        """The parent writes lines; what it gets of that."""
        self._got.clear()
        self.segment.feed([line.removesuffix(b"\n") for line in lines])
        self._settle()
        return b"".join(self._got).splitlines()


def play(host: Host, version: int, steps: list[tuple[int, int, int]]) -> Iterator[list[bytes]]:
    """Plays the client and the agent by numbers; what the parent gets of each step."""
    asked: list[tuple[str, Json]] = []
    last = 2

    def heard(lines: list[bytes]) -> list[bytes]:
        for line in lines:
            message = json.loads(line[1:]) if line[:1] in b"ps" else {}
            if "method" in message and "id" in message:
                asked.append((chr(line[0]), message))
        return lines

    yield heard(
        host.say(dump_line("p", id=1, method="initialize", params={"protocolVersion": version}))
    )
    yield heard(host.say(dump_line("s", id=1, result={"protocolVersion": version})))
    yield heard(host.say(dump_line("p", id=2, method="session/new", params={"cwd": "/"})))
    yield heard(host.say(dump_line("s", id=2, result={"sessionId": "S"})))
    asked.clear()
    for what, which, much in steps:
        session: Json = {"sessionId": "ST"[which % 7 == 0]}
        match what:
            case 0 | 1 | 2:
                last += 1
                prompt = {**session, "prompt": [{"type": "text", "text": "x" * much}]}
                line = dump_line("p", id=last, method="session/prompt", params=prompt)
            case 3 | 4 | 5:
                update = {"sessionUpdate": KINDS[which % len(KINDS)], "text": "t" * much}
                params = {**session, "update": update}
                line = dump_line("s", method="session/update", params=params)
                line *= 1 + much % 3
            case 6 | 7 | 8 | 9 if asked:
                side, message = asked.pop(-1 - which % min(2, len(asked)))
                result: Json = {"result": {"stopReason": "end_turn"}}
                if which % 9 == 0:
                    result = {"error": {"code": -32000, "message": "no"}}
                line = dump_line(side, id=message["id"], **result)
            case 10:
                line = dump_line("p", method="session/cancel", params=session)
            case 11:
                params = {"requestId": max(3, last - which % 3)}
                line = dump_line("p", method="$/cancel_request", params=params)
            case 12:
                last += 1
                method = ("session/close", "session/set_mode")[which % 2]
                line = dump_line("p", id=last, method=method, params=session)
            case _:
                params = {**session, "toolCall": {}, "options": []}
                line = dump_line(
                    "s", id=900 + last, method="session/request_permission", params=params
                )
        yield heard(host.say(*line.splitlines()))


SCRIPTS: Final = st.lists(
    st.lists(
        st.sampled_from(
            [
                *([0] * 60),
                *range(1, 8),
                *(DIES, ENDS, REFUSES, CALLS, NAMES_A_FILE, BREAKS),
                *([ADDS] * 20),
            ]
        ),
        max_size=20,
    ),
    min_size=4,
    max_size=4,
)
STEPS: Final = st.lists(
    st.tuples(st.sampled_from([*range(14), *[0, 3, 6] * 8]), st.integers(0, 20), st.integers(0, 5)),
    min_size=8,
    max_size=30,
)


@pytest.fixture(autouse=True, scope="module")
def _no_time_passes() -> Iterator[None]:
    """The order of guests depends on the time that each has used."""
    with pytest.MonkeyPatch.context() as patched:
        clock = SimpleNamespace(monotonic=lambda: 0.0, process_time=lambda: 0.0)
        for module in (segment, segment_guests, shortcut):
            patched.setattr(module, "time", clock)
        patched.setattr(shortcut, "_MOST_KEPT", 256)
        yield


@settings(max_examples=150, deadline=None)
@given(
    sets=st.lists(st.sampled_from(SETS), min_size=1, max_size=4),
    scripts=SCRIPTS,
    version=st.sampled_from([1, 1, 1, 2]),
    kept=st.sampled_from([3, 256]),
    steps=STEPS,
    failing=st.sampled_from(["fail", "bypass"]),
)
def test_with_the_shortcut_a_host_writes_the_same(
    sets: list[str],
    scripts: list[list[int]],
    version: int,
    kept: int,
    steps: list[tuple[int, int, int]],
    failing: str,
) -> None:
    """Whatever guests do, at whatever moment, and however many messages it keeps for the router.

    Reports are compared by themselves: an answer does not wait for guests that get copies of it.
    """
    shortcut._MOST_KEPT = kept  # type: ignore[misc]
    hosts = [Host(sets, scripts, failing, short=short) for short in (True, False)]
    for number, (short, ordinary) in enumerate(
        zip(*(play(host, version, steps) for host in hosts), strict=True)
    ):
        for is_report in (False, True):
            lines, others = (
                [line for line in each if line.startswith(b"c") is is_report]
                for each in (short, ordinary)
            )
            assert lines == others, number


@pytest.mark.parametrize("short", [True, False])
def test_a_prompt_leaves_a_guest_on_one_line(short: bool) -> None:
    host = Host(["full"], [[BREAKS]], "fail", short=short)
    *_, prompt = play(host, 1, [(0, 1, 0)])
    assert [line[:1] for line in prompt] == [b"s"]
    assert b'"prompt": [' in prompt[0]


def test_after_a_thousand_prompts_the_router_has_nothing_to_learn() -> None:
    host = Host(["full"], [[]], "fail", short=True)
    for _ in play(host, 1, [(0, 1, 0), *[(0, 1, 0), (6, 2, 0)] * 1000]):
        pass
    assert host.kept == 0


@pytest.mark.parametrize("held", ["full", "context"])
def test_a_prompt_that_stays_open_keeps_no_others(held: str) -> None:
    shortcut._MOST_KEPT = 8  # type: ignore[misc]
    hosts = [Host([held], [[]], "fail", short=short) for short in (True, False)]
    steps = [(0, 1, 0), *[(0, 1, 0), (6, 2, 0)] * 40, (6, 2, 0)]
    kept = []
    for short, ordinary in zip(*(play(host, 1, steps) for host in hosts), strict=True):
        assert short == ordinary
        kept.append(hosts[0].kept)
    assert max(kept) == 8
    assert kept[-1] < 8


def test_a_guest_that_speaks_in_envelopes_gets_them() -> None:
    host = Host(["full"], [[]], "fail", short=True, guest=Enveloping)
    steps = [(0, 1, 0), (3, 1, 0), (6, 1, 0)] * 3
    *_, prompt, update, result = play(host, 1, steps)
    assert [line[:1] for line in (*prompt, *update, *result)] == [b"s", b"p", b"p"]
    assert json.loads(result[0][1:])["result"] == {"stopReason": "end_turn"}
