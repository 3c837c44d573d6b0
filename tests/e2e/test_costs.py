"""Guests that cost, behind the real command: what they spend is theirs, and nobody else's.

The guilty may be ended, and is named then. Its neighbour (`passthrough`), the agent and the
conductor go on, and the chain ends with its editor.
"""

import signal
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.harness.process.rig import Chain, Rig
from tests.hostile.costs import KINDS, Attack, module

OPTIONS: Final = "allow=clock+random+timer,memory=256MiB,on_failure=restart+bypass"
QUICK: Final = ("-c", "drain=0.5", "-c", "grace=0.5")
NEVER: Final = ("-c", "drain=600", "-c", "grace=0.5")


def _attack(kind: str, size: int = 0, **more: object) -> Attack:
    """An attacker of a kind, each of its lines about so long."""
    line = KINDS[kind]
    if line.unit:
        line = replace(line, count=size // len(line.unit))
    return replace(Attack("evil", line), **more)  # type: ignore[arg-type]


def _chain(
    rig: Rig, *attacks: Attack, after: tuple[str, ...] = (), options: tuple[str, ...] = QUICK
) -> Chain:
    guests = []
    for number, attack in enumerate(attacks):
        name = f"evil{number or ''}"
        rest = f"{attack.options},{OPTIONS}"
        guests.append(f"{rig.module(name, module(attack))},{rest}")
    return rig.agent(*guests, "passthrough", *after, rig.demo(), options=options)


def _begin(chain: Chain) -> str:
    """A session. A request that was with an attacker when that was ended is asked again."""
    for _ in range(8):
        if "result" in chain.request("initialize", {"protocolVersion": 1}):
            break
    for _ in range(8):
        answer = chain.request("session/new", {"cwd": "/", "mcpServers": []})
        if "result" in answer:
            break
    return str(answer["result"]["sessionId"])


def _goes_on(chain: Chain, session: str, prompts: int = 5) -> None:
    """Prompts are answered, but for those that an attacker held when it was ended."""
    answered = 0
    for number in range(prompts + 8):
        answer = chain.answer(chain.start_prompt(session, f"/echo {number}"))
        answered += "result" in answer
        if answered == prompts:
            return
        assert "result" in answer or str(answer["error"]["data"]["component"]).startswith("evil")
    raise AssertionError(chain.story())


def _ends(rig: Rig, chain: Chain, *codes: int) -> None:
    """The chain ends with its editor, nobody is left, and nobody else was blamed."""
    assert chain.finish() in codes
    for line in chain.stderr.splitlines():
        assert "passthrough" not in line or line.startswith("error: the host of "), chain.stderr
        assert "Traceback" not in line, chain.stderr
    assert rig.leftovers(chain) == []


# -- the end ---------------------------------------------------------------------------------------

BUSY: Final = ("clock", "refused", "ping", "metric", "log", "update", "random")


@pytest.mark.proves("an editor that is gone, while")
@pytest.mark.parametrize("kind", BUSY)
def test_a_chain_ends_with_its_editor_whatever_a_guest_sends(rig: Rig, kind: str) -> None:
    """A request is open, and a guest that wakes itself for ever sends one more line each time."""
    busy = _attack(kind, 20, options="only=full")
    chain = _chain(rig, busy, _attack("clock", options="only=full"))
    session = _begin(chain)
    turn = chain.start_prompt(session, "/hang")
    rig.kin(chain)
    chain.eof()
    chain.answer(turn)
    _ends(rig, chain, 0, 1)


@pytest.mark.proves("an editor that is gone, while")
def test_a_loop_through_the_agent_prolongs_nothing(rig: Rig) -> None:
    """The agent answers a guest for ever: that is no work at what the editor waits for."""
    loop = _attack("open", options="only=trusted")
    chain = _chain(rig, loop)
    turn = chain.start_prompt(_begin(chain), "/hang")
    rig.kin(chain)
    chain.eof()
    assert "error" in chain.answer(turn)
    _ends(rig, chain, 1)


def test_it_ends_after_a_while_although_the_agent_works_on(rig: Rig) -> None:
    chain = rig.agent(
        "passthrough", rig.demo(), options=("-c", "drain=600", "-c", "drain-total=0.5")
    )
    turn = chain.start_prompt(chain.begin(), "/stream 100000000 10")
    chain.expect("session/update")
    chain.eof()
    assert "error" in chain.answer(turn)
    assert chain.exit_code() == 1


@pytest.mark.proves("an editor that is gone, while")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_for_what_is_open(rig: Rig, number: signal.Signals) -> None:
    chain = _chain(rig, _attack("clock", options="only=full"), options=NEVER)
    chain.start_prompt(_begin(chain), "/hang")
    rig.kin(chain)
    chain.eof()
    chain.process.send_signal(number)
    assert chain.exit_code() == 128 + number
    assert rig.leftovers(chain) == []


@pytest.mark.proves("an editor that is gone, while")
def test_a_second_signal_ends_all_at_once(rig: Rig) -> None:
    """Not even the grace of a program that ignores the first is waited for."""
    chain = rig.agent(rig.demo("--ignore-eof", "--ignore-term"), options=("-c", "grace=600"))
    chain.begin()
    rig.kin(chain)
    # In the order in which a process takes those that come at the same time.
    chain.process.send_signal(signal.SIGINT)
    chain.process.send_signal(signal.SIGTERM)
    assert chain.exit_code() == 128 + signal.SIGTERM
    assert rig.leftovers(chain) == []


# -- one kind each ---------------------------------------------------------------------------------


@pytest.mark.proves("guests that wake themselves")
@pytest.mark.parametrize("kind", KINDS)
def test_a_neighbour_goes_on(rig: Rig, kind: str) -> None:
    """Thirty lines a delivery, about a kilobyte each, in deliveries without end."""
    attacks = _attack(kind, 1000, lines=30, options="only=full"), _attack("clock")
    chain = _chain(rig, *attacks)
    session = _begin(chain)
    _goes_on(chain, session)
    _ends(rig, chain, 0)


LARGE: Final = {"numbers": "trusted", "objects": "filter", "escapes": "filter", "members": "full",
                "log": "context", "log-values": "context", "metric": "context", "array": "trusted",
                "long-id": "trusted", "long-method": "full", "nested": "trusted"}  # fmt: skip


@pytest.mark.proves("one line of 15 MB of numbers")
@pytest.mark.parametrize("kind", LARGE)
def test_one_line_within_all_limits_stops_nobody(rig: Rig, tmp_path: Path, kind: str) -> None:
    """Fifteen megabytes, while all that passes is traced and audited."""
    attack = _attack(kind, 15_000_000, times=2, options=f"only={LARGE[kind]}")
    files = ("--trace", str(tmp_path / "trace"), "--audit", str(tmp_path / "audit"))
    chain = _chain(rig, attack, options=(*QUICK, *files))
    session = _begin(chain)
    _goes_on(chain, session)
    _ends(rig, chain, 0)


@pytest.mark.proves("60 MB for a neighbour with 64")
@pytest.mark.parametrize("rights", ["trusted", "full"])
def test_who_floods_its_neighbour_is_ended_itself(rig: Rig, rights: str) -> None:
    """Sixty megabytes at once for a neighbour with sixty-four of memory, again and again."""
    attack = _attack("update", 30_000, lines=2000, options=f"only={rights}")
    chain = _chain(rig, attack)
    session = _begin(chain)
    while "the chain goes on without it" not in chain.stderr:
        _goes_on(chain, session, 1)
    assert "exceeded own_messages" in chain.stderr
    _ends(rig, chain, 0)


def test_answers_of_services_are_on_the_account_of_who_asks(rig: Rig) -> None:
    attack = _attack("random", lines=20_000, options="only=full")
    chain = _chain(rig, attack)
    session = _begin(chain)
    _goes_on(chain, session)
    _ends(rig, chain, 0)


@pytest.mark.proves("requests to a colluder that never")
def test_open_requests_are_few_enough(rig: Rig) -> None:
    """A colluder that never answers is asked until no more may be open."""
    options = "only=full+extension:_costs/x,limit.open_requests=40"
    attack = _attack("open", lines=30, options=options)
    chain = _chain(rig, attack, after=(rig.x("X", "--hang-on", "_costs/x"),))
    session = _begin(chain)
    _goes_on(chain, session)
    assert "limit open_requests" in chain.stderr or "component's open_requests" in chain.stderr
    _ends(rig, chain, 0, 1)


@pytest.mark.proves("a guest that turns one message")
def test_who_makes_many_of_one_pays_for_them(rig: Rig) -> None:
    """The first guest sends one message of its own at a time; the second makes 30,000 of each."""
    innocent = _attack("update", 20, own=True, options="only=trusted")
    guilty = _attack("update", 20, lines=30_000, start=12, options="only=trusted")
    chain = _chain(rig, replace(_attack("clock"), options="only=full"), innocent, guilty)
    session = _begin(chain)
    _goes_on(chain, session)
    chain.until_stderr("proxy `evil2` (evil2.wasm) exceeded own_messages")
    assert "proxy `evil1`" not in chain.stderr
    _ends(rig, chain, 0)
