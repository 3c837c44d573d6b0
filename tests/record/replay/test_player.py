"""`conductor.record.replay`: what counts as the same, with components that are functions."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest

from conductor.errors import ComponentError, UsageError
from conductor.record.replay.player import ReplayOutcome, replay
from conductor.record.replay.recording import Line, Recording, Step

Json = dict[str, Any]
Component = Callable[[str], Sequence[str]]
"""What a component says to a line."""


def line(text: str) -> Line:
    """A line with a side byte, or without."""
    side = text[:1] if text[:1] in "psc" else ""
    return Line(side, text[len(side) :].encode(), is_message=True)


def step(given: Sequence[str], said: Sequence[str] = (), failed: str = "") -> Step:
    """What was given at once, and what was said to it."""
    return Step(None, [line(one) for one in given], [line(one) for one in said], failed)


class FunctionSubject:
    """A component that is a function; as a process it may say something later."""

    silence = "silence"

    def __init__(self, component: Component, *, waits: bool = False, sided: bool = True) -> None:
        self.waits = waits
        self.sided = sided
        self.given: list[str] = []
        self._component = component
        self._sent: deque[str] = deque()

    def send(self, lines: bytes) -> None:
        """Gives it lines."""
        for text in lines.decode().splitlines():
            self.given.append(text)
            self._sent += self._component(text)

    def next(self) -> bytes | None:
        """The next line it has sent."""
        return self._sent.popleft().encode() if self._sent else None

    def finish(self) -> None:
        """It has nothing left to say."""


def run(
    component: Component,
    *steps: Step,
    content: str = "all",
    waits: bool = False,
    sided: bool = True,
) -> tuple[ReplayOutcome, list[str]]:
    """Replays steps against a component; what came of it, and what it was given."""
    subject = FunctionSubject(component, waits=waits, sided=sided)
    recording = Recording(content, [list(steps)])
    return replay(recording, "it", subject, steps), subject.given


def ask(side: str, id_: object, method: str, /, **params: object) -> str:
    """A request."""
    return side + json.dumps({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})


def tell(side: str, method: str, /, **params: object) -> str:
    """A notification."""
    return side + json.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def answer(side: str, id_: object, **result: object) -> str:
    """A result."""
    return side + json.dumps({"jsonrpc": "2.0", "id": id_, "result": result})


def scripted(answers: dict[str, Sequence[str]]) -> Component:
    """Says these to lines that hold these words."""
    return lambda text: next((said for word, said in answers.items() if word in text), ())


PROMPT: Final = ask("p", 1, "session/prompt", sessionId="a", prompt=[])
ON: Final = ask("s", 1, "session/prompt", sessionId="a", prompt=["x"])


def test_the_same_is_the_same_however_it_is_spelled() -> None:
    spelled = (
        's{"params" : {"prompt":["\\u0078"], "sessionId":"a"},"id":77, "method":"session/prompt"'
    )
    component = scripted({"prompt": [spelled + ',"jsonrpc":"2.0"}']})
    outcome, _ = run(component, step([PROMPT], [ON]))
    assert outcome == ReplayOutcome(delivered=1, expected=1, same=1, divergence=None)


def test_answers_carry_the_ids_that_are_used_now() -> None:
    """Of both neighbours and of services, paired by what is asked, in order."""
    component = scripted(
        {
            "session/prompt": [
                ask("c", "n1", "kv/get", key="b"),
                ask("c", "n2", "kv/get", key="a"),
                ask("c", "n3", "kv/get", key="a"),
            ]
        }
    )
    asked = [ask("c", n, "kv/get", key=key) for n, key in ((1, "a"), (2, "b"), (3, "a"))]
    answers = [answer("c", n, found=n) for n in (1, 2, 3)]
    outcome, given = run(component, step([PROMPT], asked), step(answers))
    assert outcome.divergence is None
    assert [json.loads(one[1:])["id"] for one in given[1:]] == ["n2", "n1", "n3"]
    assert [json.loads(one[1:])["result"]["found"] for one in given[1:]] == [1, 2, 3]


def test_an_answer_waits_for_its_request() -> None:
    """A component that asks later than it did gets its answer then."""
    later = scripted({"_next": [ask("c", 9, "clock"), tell("s", "_next")]})
    outcome, given = run(
        later,
        step([tell("p", "_first")], [ask("c", 1, "clock")]),
        step([answer("c", 1, unixMs=5)]),
        step([tell("p", "_next")], [tell("s", "_next")]),
    )
    assert outcome.divergence is None
    assert json.loads(given[-1][1:]) == {"jsonrpc": "2.0", "id": 9, "result": {"unixMs": 5}}


def test_sessions_and_sides_are_compared_each_by_itself() -> None:
    first, second = (tell("s", "session/cancel", sessionId=one) for one in "ab")
    up = tell("p", "session/update", sessionId="a")
    recorded = step([tell("p", "_go")], [first, second, up])
    outcome, _ = run(scripted({"_go": [up, second, first]}), recorded)
    assert outcome.divergence is None
    swapped = [tell("s", "_n", sessionId="a", n=n) for n in (1, 2)]
    outcome, _ = run(scripted({"_go": swapped[::-1]}), step([tell("p", "_go")], swapped))
    assert outcome.divergence is not None
    assert [one.path for one in outcome.divergence.operations] == [("params", "n")]


def test_a_cancel_names_the_request_it_is_about() -> None:
    def cancelling(id_: object) -> list[str]:
        return [ask("s", id_, "_slow"), tell("s", "$/cancel_request", requestId=id_)]

    recorded = step([tell("p", "_go")], cancelling(1))
    assert run(scripted({"_go": cancelling("other")}), recorded)[0].divergence is None
    wrong = [cancelling("other")[0], cancelling("else")[1]]
    assert run(scripted({"_go": wrong}), recorded)[0].divergence is not None


def test_what_is_logged_is_not_compared() -> None:
    log = tell("c", "log", message="new"), ask("c", "l", "log", message="newer")
    outcome, given = run(scripted({"prompt": [*log, ON]}), step([PROMPT], [ON]))
    assert outcome.divergence is None
    assert json.loads(given[-1][1:]) == {"jsonrpc": "2.0", "id": "l", "result": None}
    outcome, _ = run(scripted({"prompt": [ON]}), step([PROMPT], [*log, ON]))
    assert outcome == ReplayOutcome(delivered=1, expected=1, same=1, divergence=None)


DIFFERENCES: Final[dict[str, tuple[Sequence[str], str | None, str | None, list[Any]]]] = {
    "another value": (
        [ask("s", 1, "session/prompt", sessionId="a", prompt=["y"])],
        "session/prompt",
        "session/prompt",
        [("replace", ("params", "prompt", 0))],
    ),
    "another method": ([ask("s", 1, "_other", sessionId="a")], "session/prompt", "_other", []),
    "another side": ([ask("p", 1, "session/prompt")], None, "session/prompt", []),
    "another kind": ([tell("s", "session/prompt", sessionId="a")],
                     "session/prompt", "session/prompt", []),
    "nothing": ([], "session/prompt", None, []),
    "more": ([ON, tell("s", "_more", sessionId="a")], None, "_more", []),
    "a service": ([ask("c", 1, "clock"), ON], None, "clock", []),
    "no message": (["sno"], None, "", []),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENCES)
@pytest.mark.parametrize("waits", [False, True])
def test_the_first_difference_is_named(name: str, waits: bool) -> None:
    said, expected, came, operations = DIFFERENCES[name]
    outcome, _ = run(scripted({"prompt": said}), step([PROMPT], [ON]), waits=waits)
    found = outcome.divergence
    assert found is not None
    assert (found.expected.method if found.expected else None) == expected
    assert (found.sent.method if found.sent else None) == came
    assert [(one.op, one.path) for one in found.operations] == operations
    assert (found.number, outcome.same) == ((2, 1) if name == "more" else (1, 0))
    if name == "nothing":
        assert found.text == "silence"


def test_it_fails_as_it_did_or_that_is_the_difference() -> None:
    def failing(text: str) -> Sequence[str]:
        raise ComponentError(f"it trapped at {text[:1]}")

    assert run(failing, step([PROMPT], failed="it trapped"))[0].divergence is None
    found = run(failing, step([PROMPT], [ON]))[0].divergence
    assert found is not None
    assert found.text == "it failed: it trapped at p"
    found = run(scripted({}), step([PROMPT], failed="it trapped"))[0].divergence
    assert found is not None
    assert found.text == "it did not fail as it did then: it trapped"


def test_secrets_are_compared_as_they_were_recorded() -> None:
    recorded = tell("s", "_n", apiKeys="[redacted]")
    component = scripted({"_go": [tell("s", "_n", apiKeys="its own")]})
    assert run(component, step([tell("p", "_go")], [recorded]))[0].divergence is not None
    outcome, _ = run(component, step([tell("p", "_go")], [recorded]), content="redacted")
    assert outcome.divergence is None


def test_a_program_wraps_what_concerns_its_successor() -> None:
    """One connection, one id space: envelopes and services are told apart by their methods."""

    def wrapped(id_: object, method: str, /, **params: object) -> str:
        return ask("", id_, "proxy/successor", method=method, params=params)

    component = scripted(
        {
            '"session/prompt"': [wrapped("x", "session/prompt", sessionId="a")],
            '"stopReason"': [ask("", "y", "_conductor/clock")],
            '"unixMs"': [answer("", 1, stopReason="end_turn")],
        }
    )
    steps = [
        step([ask("", 1, "session/prompt", sessionId="a")]),
        step([], [wrapped(10, "session/prompt", sessionId="a")]),
        step([answer("", 10, stopReason="end_turn")]),
        step([], [ask("", 11, "_conductor/clock")]),
        step([answer("", 11, unixMs=5)], [answer("", 1, stopReason="end_turn")]),
    ]
    outcome, given = run(component, *steps, waits=True, sided=False)
    assert outcome == ReplayOutcome(delivered=3, expected=3, same=3, divergence=None)
    assert [json.loads(one)["id"] for one in given] == [1, "x", "y"]


def test_what_cannot_be_replayed() -> None:
    with pytest.raises(UsageError, match="recorded over the channel"):
        run(scripted({}), step([PROMPT]), sided=False)
    launching = step([ask("", 1, "_scp/proxy", server={})])
    with pytest.raises(UsageError, match="launches its successor itself"):
        run(scripted({}), launching, sided=False)
