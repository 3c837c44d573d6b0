"""`conductor ps --watch`: its view of a chain, and a person at its screen."""

import contextlib
import fcntl
import json
import re
import signal
import struct
import termios
import threading
import time
from typing import Any

import msgspec
import pytest

from conductor.cli import ps_table, ps_watch
from conductor.control import client, places
from conductor.control.client import Control
from conductor.control.protocol import ChainState, ComponentState, Figures
from conductor.control.watching import Seen, Watch
from conductor.errors import UsageError
from tests.harness.process.command import Running, conductor
from tests.harness.process.rig import Rig
from tests.places import DEADLINE

LEAVES = "\x1b[?1049l"
"""The sequence of a program that gives the terminal back."""


def socket_of(pid: int) -> str | None:
    """The control socket of a chain, once it is there."""
    return next((path for one, path in places.listed() if one.process == pid), None)


def looked(pid: int, *arguments: str) -> dict[str, Any]:
    """The components of a chain, as `--json` has them."""
    done = conductor("ps", "--watch", "--pid", str(pid), "--json", *arguments)
    assert done.code == 0, done
    (chain,) = json.loads(done.out)
    assert chain["counted"] > 0
    return {one["name"]: one for one in chain["components"]}


def resize(screen: Running, columns: int) -> None:
    """Makes the terminal of a program another one."""
    fcntl.ioctl(screen.err, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    screen.process.send_signal(signal.SIGWINCH)


def test_a_person_watches_a_chain_and_pauses_a_component(rig: Rig) -> None:
    chain = rig.agent("passthrough", "datetime", rig.x("X"), rig.demo())
    session, pid = chain.begin(), chain.process.pid
    count, deadline = 0, time.monotonic() + DEADLINE
    while (socket := socket_of(pid)) is None or count < 3:
        assert time.monotonic() < deadline
        chain.prompt(session, "hi")
        count += 1
    prompts = looked(pid, "--filter", "~method session/prompt")
    assert [prompts["X"]["figures"][name] for name in ("messages", "changed")] == [2 * count, 0]
    assert [prompts["A"]["figures"][name] for name in ("messages", "changed")] == [count, 0]
    assert prompts["datetime"]["figures"] == prompts["passthrough"]["figures"]  # one process
    assert prompts["datetime"]["figures"]["changed"] == count
    assert 0 < prompts["X"]["figures"]["p50"] <= prompts["X"]["figures"]["p99"]

    with Running("ps", "--watch", "--pid", str(pid), screen=(100, 24)) as screen:
        before = termios.tcgetattr(screen.err)[3] | termios.ICANON | termios.ECHO
        screen.wait_for(screen.out, "p50")
        for key in "jjj":
            screen.type(key)
        screen.type("p")
        screen.wait_for(screen.out, "`X` is paused")
        with contextlib.closing(Control.connected(socket)) as control:
            now = {one.name: one for one in control.figures().components}
        assert now["X"].state == "paused"
        assert now["A"].figures is not None
        assert now["A"].figures.messages > count
        screen.type("p")
        screen.wait_for(screen.out, "`X` is resumed")
        resize(screen, 40)
        screen.wait_for(screen.out, "open\x1b[0m")  # the last column
        assert chain.finish() == 0
        screen.wait_for(screen.out, "the chain has ended")
        screen.type("q")
        screen.wait_for(screen.out, LEAVES)
        assert screen.process.wait() == 0
        assert termios.tcgetattr(screen.err)[3] == before


def test_an_interrupt_gives_the_terminal_back() -> None:
    with Running("ps", "--watch", screen=(80, 24)) as screen:
        before = termios.tcgetattr(screen.err)[3] | termios.ICANON | termios.ECHO
        screen.wait_for(screen.out, "q quit")
        screen.interrupt()
        screen.wait_for(screen.out, LEAVES)
        assert screen.process.wait() == 130
        assert termios.tcgetattr(screen.err)[3] == before


class Switches:
    """A chain that at once does each thing that it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask(self, do: str, name: str, **_: object) -> None:
        """Notes the action and the component."""
        self.asked.append(f"{do} {name}")

    def close(self) -> None:
        """Nothing is open."""


def test_the_key_that_follows_a_switch_is_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon: it does not give up the switch whose end the person has read of."""
    chain, over = Switches(), threading.Event()
    monkeypatch.setattr(Control, "connected", lambda path: chain)

    def changed() -> None:
        if watch.news == "`X` is paused":
            watch.switch(ID, "X", paused=False)
        elif watch.news == "`X` is resumed":
            over.set()

    watch = Watch(None, "", changed)
    watch.switch(ID, "X", paused=True)
    assert over.wait(DEADLINE)
    assert chain.asked == ["pause X", "resume X"]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="no term `~nothing`"):
        ps_watch.watch(None, "~nothing", as_json=True)
    with pytest.raises(UsageError, match="no chain of yours runs as process 1"):
        ps_watch.watch(client.read_id("1"), "", as_json=True)


# -- tables ----------------------------------------------------------------------------------------

ID = places.Id(4711)
EVIL = "\x1b[2Jred\u202e"


def seen(*names: str, **more: Any) -> Seen:
    """A chain of such components, which share a process."""
    figures = Figures(messages=1234, changed=2, p50=0.5, p95=75.0, p99=61_000.0)
    components = [
        ComponentState(
            name=name, state="up", paused=False, process=7, memory=3 << 20, open=1, waiting=0,
            restarts=2, verdicts=0, cpu=1.0, figures=figures,
        )
        for name in names
    ]  # fmt: skip
    state = ChainState(
        pid=4711, version="", command="agent", folder=EVIL, parent=EVIL, uptime=1.0, turn=False,
        memory=None, components=components, counted=300.0,
    )  # fmt: skip
    return Seen(id=ID, at=10.0, state=state, **more)


def test_a_table_fits_and_nothing_in_it_is_obeyed() -> None:
    chains = [seen("datetime", EVIL, "a" * 300), seen("x", why=EVIL)]
    heads = {}
    for width in (20, 40, 60, 80, 120):
        rows = [*ps_table.rows(chains, width)]
        assert max(len(row.text) for row in rows) <= width
        assert not re.search("[\x00-\x1f\u202e]", "".join(row.text for row in rows))
        assert [row.of for row in rows if row.of][:2] == [(ID, "datetime"), (ID, EVIL)]
        heads[width] = rows[1].text.split()
    assert heads[120][-3:] == ["cpu", "memory", "restarts"]
    assert "p95" in heads[40]
    assert heads[20] == ["component", "state"]


def test_a_table_says_what_it_does_not_know() -> None:
    assert [row.text for row in ps_table.rows([], 80)] == ["no chain of yours runs"]
    silent = Seen(id=places.Id(1), at=0.0, why="it takes no connection")
    assert [row.text for row in ps_table.rows([silent], 80)] == [
        "1  does not answer: it takes no connection"
    ]
    bare = seen("one", "two")
    assert bare.state is not None
    bare.state.counted = None
    for one in bare.state.components:
        one.figures = one.cpu = one.process = None
    _, why, _, row, _ = [row.text for row in ps_table.rows([bare], 120)]
    assert "`ring` is none" in why
    assert row.split() == ["one", "up", "-", "-", "-", "-", "-", "1", "-", "3", "MiB", "2"]


def test_processor_time_is_a_part_of_what_passed_and_shared_figures_stand_once() -> None:
    now = seen("one", "two")
    earlier = msgspec.json.decode(msgspec.json.encode(now.state), type=ChainState)
    for one in earlier.components:
        one.cpu = 0.5
    now.before = Seen(id=ID, at=8.0, state=earlier)
    rows = [row.text.split() for row in ps_table.rows([now], 120)]
    assert "25%" in rows[2]
    assert rows[3] == ["two", "up", *'"' * 8, "2"]
