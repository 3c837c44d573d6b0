"""The ways a life ends, and the conditions that each end must meet."""

import signal
from collections.abc import Callable

import msgspec

from benchmarks.chaos import victims
from benchmarks.chaos.expected import Anything, Text
from benchmarks.chaos.life import Life
from benchmarks.chaos.rounds import AGENT
from benchmarks.chaos.script import Ending, Turn

_LEFT_OVER_S = 10.0
"""Seconds after the conductor's end in which its processes must be gone."""


def compare_histories(life: Life) -> None:
    """Compares the agent's own account of prompts with the client's: the same, in order, once."""
    life.killed.clear()
    for session in life.idle_sessions():
        heard = Anything()
        turn = Turn("/history", "/history", lambda heard=heard: heard)  # type: ignore[misc]
        entry = life.prompt(session, turn)
        life.until_answered([entry])
        if not entry.good:
            continue  # the ledger has noted it
        turns = msgspec.json.decode(heard.text)["turns"]
        prompts = ["".join(block["text"] for block in one["prompt"]) for one in turns]
        expected = session.as_heard(prompts)
        if prompts != expected:
            at = _differs(prompts, expected)
            life.ledger.wrong(
                f"{session.name}: the agent heard {len(prompts)} prompts of "
                f"{len(expected)}, and others from number {at} on"
            )


def end(life: Life) -> None:
    """Ends the life as planned, and looks for leftovers."""
    _ENDINGS[life.plan.ending](life)
    life.wire.process.wait()


def look_for_orphans(life: Life) -> None:
    """Counts the processes that outlive the conductor; they are killed then."""
    left = victims.left_over(_LEFT_OVER_S)
    life.tally.orphans += len(left)
    for text in left:
        life.tally.trouble(f"orphan: {text}")


def _eof(life: Life) -> None:
    life.wire.finish()
    _until_gone(life, 0)


def _sigterm(life: Life) -> None:
    _hang(life)
    life.killed.add("")  # errors name no component: none has failed
    victims.send(life.wire.process.pid, signal.SIGTERM)
    _until_gone(life, None)


def _agent(life: Life) -> None:
    _hang(life)
    for pid in victims.below(life.wire.process.pid, AGENT):
        life.killed.add("agent")
        victims.send(pid, signal.SIGKILL)
    _until_gone(life, 1)


def _conductor(life: Life) -> None:
    _hang(life)
    life.wire.process.kill()
    _until_gone(life, -signal.SIGKILL)
    life.ledger.excuse()


def _hang(life: Life) -> None:
    """A turn that is open when the end comes, and known to have reached the agent."""
    session = life.session()
    life.prompt(session, Turn("open at the end", "/hang", lambda: Text("")))
    entry = life.request("_chaos/nobody", {}, {"what": "fence at the end", "code": -32601})
    life.until_answered([entry])


def _until_gone(life: Life, code: int | None) -> None:
    """Waits for the conductor's end and compares its exit code; None: any."""
    life.until(lambda: life.wire.ended, "the conductor's end")
    found = life.wire.process.wait()
    if code is not None and found != code:
        life.tally.failures += 1
        ending = life.plan.ending.value
        life.tally.trouble(f"exit code {found} instead of {code} after {ending}")


def _differs(one: list[str], other: list[str]) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


_ENDINGS: dict[Ending, Callable[[Life], None]] = {
    Ending.EOF: _eof,
    Ending.SIGTERM: _sigterm,
    Ending.AGENT: _agent,
    Ending.CONDUCTOR: _conductor,
}
