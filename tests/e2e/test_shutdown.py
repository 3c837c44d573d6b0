"""Nothing of a chain is left, however it ends."""

import shlex
import signal
import sys
from typing import Final

import pytest

from tests.harness.process.processes import command_line, needs_proc, wait_gone
from tests.harness.process.rig import DEMO, Chain, Rig
from tests.places import DEADLINE

pytestmark = needs_proc

QUICK: Final = ("-c", "grace=0.2")
STUBBORN: Final = ("--ignore-eof", "--ignore-term", "--child")

ENDINGS: Final = {"SIGTERM": 128 + 15, "SIGINT": 128 + 2, "SIGKILL": -9, "eof": 0}
"""How the conductor is ended, and its exit code. First what other tests do not do."""


def _end(chain: Chain, how: str) -> None:
    if how == "eof":
        chain.eof()
    else:
        chain.process.send_signal(signal.Signals[how])
    if how == "SIGKILL":
        chain.process.wait(DEADLINE)
        chain.reading = False
    else:
        assert chain.exit_code() == ENDINGS[how]


@pytest.mark.proves("no process is left behind")
@pytest.mark.parametrize("how", ENDINGS)
def test_every_process_of_a_chain_ends(rig: Rig, how: str) -> None:
    """Three components of three kinds; all started, none left."""
    chain = rig.agent("datetime", rig.x("X", dialect="scp"), "passthrough", rig.demo())
    session = chain.begin()
    assert chain.prompt(session, "/echo up") == "up"
    kin = rig.kin(chain)
    commands = [command_line(pid) for pid in kin.pids]
    for part in ("recording_proxy", "agent.py", "conductor.run.segment", "join"):
        assert any(part in command for command in commands), (part, commands)
    _end(chain, how)
    assert rig.leftovers(chain) == []


@pytest.mark.proves("no process is left behind")
@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGKILL"])
def test_stubborn_components_and_their_helpers(rig: Rig, how: str) -> None:
    """An agent that ignores its end of file and SIGTERM, and has a child of its own."""
    chain = rig.agent("passthrough", rig.x("X"), rig.demo(*STUBBORN), options=QUICK)
    session = chain.begin()
    assert chain.prompt(session, "/echo up") == "up"
    chain.until_stderr("demo: child pid ")
    child = int(chain.stderr.partition("demo: child pid ")[2].split()[0])
    assert child in rig.kin(chain).pids
    _end(chain, how)
    assert wait_gone(child, DEADLINE)
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGKILL"])
def test_a_shell_with_something_in_the_background(rig: Rig, how: str) -> None:
    """`sh -c 'x & exec y'`, as `npx` and `uvx` leave it."""
    agent = shlex.join([sys.executable, str(DEMO)])
    shell = rig.program("/bin/sh", "-c", f"sleep 1000 & sleep 1000 & exec {agent}", name="A")
    chain = rig.agent("passthrough", shell, options=QUICK)
    assert chain.prompt(chain.begin(), "/echo up") == "up"
    assert len(rig.kin(chain).named("sleep 1000")) == 2
    _end(chain, how)
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("how", ["eof", "SIGTERM", "SIGKILL"])
def test_conductors_in_conductors(rig: Rig, how: str) -> None:
    inner = rig.nested("passthrough", rig.x("P"), options=QUICK)
    outer = rig.nested(inner, rig.x("Q", dialect="scp"), options=QUICK)
    chain = rig.agent(outer, rig.demo("--child"), options=("-c", "grace=1"))
    assert chain.prompt(chain.begin(), "/echo up") == "up"
    assert len(rig.kin(chain).named("conductor proxy")) >= 2
    _end(chain, how)
    assert rig.leftovers(chain) == []


def test_a_helper_that_outlives_an_agent_that_exits(rig: Rig) -> None:
    """The agent is gone at once; what it left in its group goes too."""
    agent = shlex.join([sys.executable, str(DEMO)])
    shell = rig.program("/bin/sh", "-c", f"sleep 1000 & exec {agent}", name="A")
    chain = rig.agent(shell, options=QUICK)
    session = chain.begin()
    assert len(rig.kin(chain).named("sleep 1000")) == 1
    assert "error" in chain.answer(chain.start_prompt(session, "/exit 3"))
    assert chain.exit_code() == 1
    assert rig.leftovers(chain) == []


@pytest.mark.parametrize("before", [None, "wasm", "acp", "scp"])
def test_work_accepted_before_the_end_is_done(rig: Rig, before: str | None) -> None:
    """End of file right behind the prompts: turns run to their end, answers arrive, exit 0."""
    proxies = [] if before is None else ["passthrough"] if before == "wasm" else None
    proxies = [rig.x("X", dialect=str(before))] if proxies is None else proxies
    chain = rig.agent(*proxies, rig.demo())
    one, two = chain.begin(), chain.new_session()
    first = chain.start_prompt(one, "/sleep 0.3")
    queued = chain.start_prompt(one, "/updates 100")
    second = chain.start_prompt(two, "/toolcall open")
    assert chain.finish() == 0
    for turn in (first, queued, second):
        assert chain.answer(turn)["result"]["stopReason"] == "end_turn"
    assert chain.texts(one) == ["slept 0.3 s", *(f"update {at}\n" for at in range(100))]
    assert rig.leftovers(chain) == []


def test_a_turn_that_hangs_is_cancelled_in_the_end(rig: Rig) -> None:
    """Nobody is left to be asked: the open request is answered, nothing hangs."""
    chain = rig.agent("passthrough", rig.x("X"), rig.demo(), options=("-c", "drain=0.1"))
    session = chain.begin()
    chain.serves["session/request_permission"] = None
    turn = chain.start_prompt(session, "/permission for ever")
    chain.expect("session/request_permission")
    chain.finish()
    assert len(chain.answers(turn)) == 1
    assert rig.leftovers(chain) == []


def test_a_client_that_is_gone_altogether(rig: Rig) -> None:
    """Both pipes closed amid a stream: the chain ends all the same."""
    chain = rig.agent("passthrough", rig.x("X"), rig.demo(log=False), options=QUICK)
    session = chain.begin()
    rig.kin(chain)
    chain.start_prompt(session, "/stream 100000 1000")
    chain.expect("session/update")
    assert chain.process.stdout is not None
    chain.abandon()
    chain.process.wait(DEADLINE)
    assert rig.leftovers(chain) == []


def test_ended_before_anything_was_said(rig: Rig) -> None:
    chain = rig.agent("passthrough", rig.x("X"), rig.demo())
    assert chain.finish() == 0
    assert chain.lines == []
    assert rig.leftovers(chain) == []
