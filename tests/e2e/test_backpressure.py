"""'Failure manners': whoever does not read, memory stays bounded and nothing is lost."""

import signal
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.harness.process.processes import chars_read, needs_proc, pss_mib, wait_gone
from tests.harness.process.rig import Chain, Rig
from tests.places import DEADLINE

pytestmark = needs_proc

MIB: Final = 1024 * 1024
COUNT, SIZE = 30_000, 10_000
"""Messages of a stream, and bytes in each: 300 MB."""

MOST: Final = 100.0
"""MiB the conductor and its proxies may use together (proportional set size)."""

CHAINS: Final = ("no proxy", "sandboxed", "subprocess")


def _chain(rig: Rig, kind: str, agent: str) -> Chain:
    one = rig.x("X", log=False)
    proxies = {
        "no proxy": [],
        "sandboxed": ["passthrough"],
        "subprocess": [one],
        "mixed": ["passthrough,message=32MiB", one, "passthrough,message=32MiB"],
    }[kind]
    return rig.agent(*proxies, agent)


class Stream:
    """Checks a stream of numbered chunks line by line, keeping none of them."""

    def __init__(self, chain: Chain) -> None:
        self.count = 0
        self._record = chain.on_line
        chain.on_line = self.line

    def line(self, line: bytes) -> None:
        """Takes one line of C's."""
        head, found, text = line.partition(b'"text":"')
        if len(text) < SIZE or not found or b"session/update" not in head:
            self._record(line)
            return
        assert int(text[:8]) == self.count
        self.count += 1


def _polled(chain: Chain) -> Iterator[None]:
    """Ten times a second, until the deadline; ends at once should the conductor."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        assert not wait_gone(chain.process.pid, 0.1), chain.story()
        yield
    raise AssertionError(f"{DEADLINE:g} s are over{chain.story()}")


def _until(chain: Chain, done: Callable[[], bool]) -> None:
    for _ in _polled(chain):
        if done():
            return


def _stalled(chain: Chain, pids: list[int]) -> None:
    """Waits until something has been streamed and nobody of `pids` reads any more."""
    seen: list[list[int]] = []
    for _ in _polled(chain):
        seen.append([chars_read(pid) for pid in pids])
        if len(seen) > 5 and max(seen[-1]) > MIB and all(s == seen[-1] for s in seen[-5:]):
            return


@pytest.mark.parametrize("kind", CHAINS)
def test_a_client_that_does_not_read(rig: Rig, kind: str) -> None:
    chain = _chain(rig, kind, rig.demo(log=False))
    session = chain.begin()
    (agent,) = rig.kin(chain).named("agent.py")
    pids = [chain.process.pid, *(pid for pid in rig.kin(chain).pids if pid != agent)]
    stream = Stream(chain)
    chain.reading = False
    turn = chain.start_prompt(session, f"/stream {COUNT} {SIZE}")
    _stalled(chain, pids)
    assert pss_mib(pids) < MOST
    chain.reading = True
    assert chain.answer(turn)["result"]["stopReason"] == "end_turn"
    assert stream.count == COUNT
    assert chain.finish() == 0
    assert rig.leftovers(chain) == []


def test_a_host_keeps_nothing_of_large_prompts(rig: Rig) -> None:
    chain = rig.agent("passthrough,only=full", rig.demo(log=False))
    session = chain.begin()
    (host,) = rig.kin(chain).named("segment_start")
    text = "x" * MIB
    assert chain.prompt(session, f"/echo {text}") == text
    at_first = pss_mib([host])
    for _ in range(24):
        assert chain.prompt(session, f"/echo {text}") == text
    _until(chain, lambda: pss_mib([host]) < at_first + 8)


@pytest.mark.parametrize("kind", [*CHAINS, "mixed"])
def test_a_client_that_does_not_read_can_still_cancel(rig: Rig, kind: str) -> None:
    chain = _chain(rig, kind, rig.demo(log=False))
    session = chain.begin()
    (agent,) = rig.kin(chain).named("agent.py")
    pids = [chain.process.pid, *(pid for pid in rig.kin(chain).pids if pid != agent)]
    stream = Stream(chain)
    chain.reading = False
    turn = chain.start_prompt(session, f"/stream {COUNT} {SIZE}")
    _stalled(chain, pids)
    before = chars_read(agent)
    chain.notify("session/cancel", {"sessionId": session})
    _until(chain, lambda: chars_read(agent) > before)
    chain.reading = True
    assert chain.answer(turn)["result"]["stopReason"] == "cancelled"
    assert 0 < stream.count < COUNT
    assert chain.prompt(session, "/echo on") == "on"


@pytest.mark.parametrize("kind", ["no proxy", "sandboxed", "subprocess"])
def test_an_agent_that_does_not_read(rig: Rig, kind: str) -> None:
    """120 MB of notifications to a stopped agent: C is made to wait, then all arrive."""
    chain = _chain(rig, kind, rig.actor("odd_agent", name="odd"))
    chain.begin()
    (agent,) = rig.kin(chain).named("tests.e2e.actors.odd_agent")
    pids = [chain.process.pid, *(pid for pid in rig.kin(chain).pids if pid != agent)]
    handle = rig.kin(chain).handle(agent)
    signal.pidfd_send_signal(handle, signal.SIGSTOP)
    count = 12_000
    head = b'{"jsonrpc":"2.0","method":"_odd/count","params":{"number":%d,"filler":"%b"}}\n'
    flood = b"".join(head % (number, b"x" * 10_000) for number in range(count))
    chain.send_bytes(flood)
    _flooded(chain, pids)
    assert chain.unsent > len(flood) / 2
    assert pss_mib(pids) < MOST
    signal.pidfd_send_signal(handle, signal.SIGCONT)
    assert chain.request("_odd/counted")["result"] == [count, 0]
    assert chain.finish() == 0


def _flooded(chain: Chain, pids: list[int]) -> None:
    """Writes on until nobody takes anything any more."""
    seen: list[list[int]] = []
    for _ in _polled(chain):
        left = -1
        while chain.unsent != left:
            left = chain.unsent
            chain.send_bytes(b"")
        seen.append([left, *(chars_read(pid) for pid in pids)])
        if len(seen) > 5 and all(s == seen[-1] for s in seen[-5:]):
            return


def test_a_client_that_never_reads_again_is_given_up(rig: Rig) -> None:
    chain = rig.agent(
        "passthrough", rig.demo(log=False), options=("-c", "stall=0.3", "-c", "grace=0.2")
    )
    session = chain.begin()
    chain.reading = False
    chain.start_prompt(session, f"/stream {COUNT} {SIZE}")
    chain.until_stderr("error: ")
    assert "the client is stalled" in chain.stderr
    chain.process.wait(DEADLINE)
    assert chain.process.returncode == 1
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("kind", ["no proxy", "mixed"])
def test_one_large_message_each_way(rig: Rig, kind: str) -> None:
    """20 MB of prompt, and 20 MB of answer: a line is a line."""
    chain = _chain(rig, kind, rig.demo(log=False))
    session = chain.begin()
    text = "y" * 20_000_000
    assert chain.prompt(session, text) == text
    assert chain.finish() == 0
