"""What a scenario expects, held to the trace of its run."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from conductor.author.scenario.file import Expectation, Scenario, Step, texts
from conductor.author.scenario.script import Script
from conductor.core import json_text
from conductor.errors import one_line
from conductor.record.replay import comparison
from conductor.record.replay.comparison import Message
from conductor.record.turns import edits
from conductor.record.turns.line import AGENT, CLIENT, Line, read_line
from conductor.record.turns.reader import Reader
from conductor.spec.toml_files import Key

_MOST_SHOWN: Final = 20
"""Texts and names that a failure holds."""
_WORDS: Final = {"the answer": "answer", "the thoughts": "thoughts"}
_ANSWER: Final = "answer to session/prompt"


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An expectation that does not hold."""

    at: tuple[Key, ...]
    """The keys that lead to it in the file."""
    about: str
    """In words: whose message."""
    expected: str
    got: tuple[str, ...]
    """The texts that came instead, or in words what did."""
    equals: str | None = None
    """The text that one had to equal."""
    is_text: bool = False
    """Whether `got` are texts that came, not words about them."""
    may_come: bool = False
    """Whether a message that is still to come can make it hold."""


class Seen:
    """What a run has shown: for each step, and as a whole."""

    def __init__(self, steps: Sequence[Step], script: Script, reader: Reader) -> None:
        self._steps = steps
        self._reader = reader
        self._starts = _starts(script, reader)

    def step(self, number: int) -> _Window:
        """What came from a step's first message on until the next step. One that only notifies has
        no answer that would end it: it ends with the step behind it."""
        last = number
        while self._steps[last].notify is not None and last + 1 < len(self._steps):
            last += 1
        return _Window(self._reader, self._starts[number], self._starts[last + 1])

    @property
    def whole(self) -> _Window:
        """All that came."""
        return _Window(self._reader, 0, len(self._reader))


def _starts(script: Script, reader: Reader) -> list[int]:
    """The number of the event with which each step begins, and behind the last one.

    A trace may have a notification behind the request that was sent after it, so the earlier step
    begins with whatever comes first.
    """
    sent = [
        (at, line)
        for at in range(len(reader))
        if (line := read_line(reader.line(at))) is not None and line.source == CLIENT
    ]
    places, behind = [], 0
    for message in script.messages:
        id_ = bytes(message.id) if message.type == "request" else b""
        place = next((at for at, line in sent if at >= behind and _is_of(line, message, id_)), None)
        places.append(len(reader) if place is None else place)
        if place is not None and id_:
            behind = place
    places.append(len(reader))
    for at in reversed(range(len(places) - 1)):
        places[at] = min(places[at], places[at + 1])
    return [places[sent] for sent in script.sent] + [len(reader)]


def _is_of(line: Line, message: Line, id_: bytes) -> bool:
    """Whether an event is a message of the client; `id_`: of a request."""
    if (line.type, line.method) != (message.type, message.method):
        return False
    return not id_ or (line.own is not None and bytes(line.own.id) == id_)


class _Window:
    """A part of a run."""

    def __init__(self, reader: Reader, first: int, behind: int) -> None:
        self._reader = reader
        self._range = range(first, behind)

    def _lines(self) -> Iterator[tuple[int, Line]]:
        for number in self._range:
            line = read_line(self._reader.line(number))
            if line is not None and line.is_event:
                yield number, line

    def came(self, end: str) -> list[Message]:
        """What came to an end, in order."""
        return list(comparison.messages(self._reader, self._lines(), end, conductors=True))

    def work(self, component: str) -> tuple[list[str], int]:
        """What a component did to each prompt, in words, and how many messages it changed."""
        says, changed = [], 0
        for turn in self._reader.turns:
            if turn.number and not turn.by and turn.events[0] in self._range:
                shares = [share for share in turn.shares if share.component == component]
                says += [share.says or "nothing" for share in shares]
                changed += sum(share.changed for share in shares)
        return says, changed


def failures(scenario: Scenario, script: Script, reader: Reader) -> list[Failure]:
    """The expectations that do not hold. A step's request that was answered with an error is one,
    unless an error is expected."""
    seen = Seen(scenario.step, script, reader)
    failed = list(_failed(scenario.expect, seen.whole, ()))
    expects_error = any(each.client == "error" for each in scenario.expect)
    for number, step in enumerate(scenario.step):
        window = seen.step(number)
        failed += _failed(step.expect, window, ("step", number))
        if not expects_error and not any(each.client == "error" for each in step.expect):
            failed += _errors(step, window, number)
    return failed


def _errors(step: Step, window: _Window, number: int) -> Iterator[Failure]:
    for message in window.came(CLIENT) if step.notify is None else ():
        if message.is_error:
            method = message.what.removeprefix("answer to ")
            yield Failure(
                at=("step", number),
                about=f"the client's `{one_line(method)}`",
                expected="an answer that is no error",
                got=(_text(message, "error", None) or "an error",),
            )


def _failed(
    expectations: Sequence[Expectation], window: _Window, at: tuple[Key, ...]
) -> Iterator[Failure]:
    for number, expectation in enumerate(expectations):
        place = (*at, "expect", number)
        if expectation.component is not None:
            failure = _of_component(expectation, expectation.component, window, place)
        else:
            end = CLIENT if expectation.client is not None else AGENT
            names = expectation.client if expectation.client is not None else expectation.agent
            came = window.came(end)
            if isinstance(names, list):
                failure = _in_order(names, end, came, place)
            else:
                failure = _of_messages(expectation, names or "*", end, came, place)
        if failure is not None:
            yield failure


def _in_order(
    names: list[str], end: str, came: list[Message], at: tuple[Key, ...]
) -> Failure | None:
    left = iter(came)
    if all(any(_is(message, name) for message in left) for name in names):
        return None
    return Failure(
        at=at,
        about=f"what the {end} got",
        expected=f"in this order: {', '.join(names)}",
        got=(_listed(came),),
        may_come=True,
    )


def _of_messages(
    expectation: Expectation, name: str, end: str, came: list[Message], at: tuple[Key, ...]
) -> Failure | None:
    held = [_text(message, name, expectation.at) for message in came if _is(message, name)]
    found = [text for text in held if text is not None]
    wrong = _wrong(expectation, found, len(held) if expectation.at is None else len(found))
    if wrong is None:
        return None
    expected, may_come = wrong
    pointer = f" at {expectation.at}" if expectation.at else ""
    # Of what must not be there, only what is.
    lacking = [text for text in found if _has_any(expectation.lacks, text)]
    got = tuple((lacking or found)[:_MOST_SHOWN])
    if not found:
        got = ("nothing there" if held else f"no `{name}`, but {_listed(came)}",)
    return Failure(
        at=at,
        about=f"the {end}'s `{name}`{pointer}",
        expected=expected,
        got=got,
        equals=expectation.equals if found else None,
        is_text=bool(found),
        may_come=may_come,
    )


def _of_component(
    expectation: Expectation, name: str, window: _Window, at: tuple[Key, ...]
) -> Failure | None:
    says, changed = window.work(name)
    is_counted = expectation.count is not None or expectation.most is not None
    words = msgspec.structs.replace(expectation, count=None, most=None)
    has_words = any((words.equals is not None, words.contains, words.matches, words.lacks))
    wrong = _wrong(words, says, len(says)) if has_words else None
    about = f"what `{name}` did to the prompt"
    if wrong is None and is_counted:
        wrong = _counted(expectation, changed)
        says, about = [str(changed)], f"how many messages `{name}` changed"
    if wrong is None:
        return None
    got = tuple(says) or (f"`{name}` had no prompt",)
    return Failure(
        at=at, about=about, expected=wrong[0], got=got, is_text=bool(says), may_come=wrong[1]
    )


def _wrong(expectation: Expectation, found: list[str], came: int) -> tuple[str, bool] | None:
    """What is expected of some texts and does not hold, in words, and whether a further one can
    make it hold. None: it holds."""
    held = [text for text in found if _holds(expectation, text)]
    if any(map(functools.partial(_has_any, expectation.lacks), found)):
        return f"none of them with {_quoted(expectation.lacks)}", False
    if expectation.count is not None or expectation.most is not None:
        wrong = _counted(expectation, len(held))
        if wrong is None:
            return None
        tests = _tests(expectation)
        return f"{wrong[0]}{f' with {tests}' if tests else ''}, not {len(held)}", wrong[1]
    if held:
        return None
    return _tests(expectation) or "at least one", not came


def _has_any(parts: str | list[str] | None, text: str) -> bool:
    return any(part in text for part in texts(parts))


def _counted(expectation: Expectation, number: int) -> tuple[str, bool] | None:
    if expectation.count is not None and number != expectation.count:
        return str(expectation.count), number < expectation.count
    if expectation.most is not None and number > expectation.most:
        return f"at most {expectation.most}", False
    return None


def _holds(expectation: Expectation, text: str) -> bool:
    if expectation.equals is not None and text != expectation.equals:
        return False
    if not all(part in text for part in texts(expectation.contains)):
        return False
    return expectation.matches is None or re.search(expectation.matches, text) is not None


def _tests(expectation: Expectation) -> str:
    tests = []
    if expectation.equals is not None:
        tests.append(_quoted(expectation.equals))
    if expectation.contains is not None:
        tests.append(f"a text with {_quoted(expectation.contains)}")
    if expectation.matches is not None:
        tests.append(f"a match of {_quoted(expectation.matches)}")
    return " and ".join(tests)


def _quoted(given: str | list[str] | None) -> str:
    return " and ".join(json_text.encode(text).decode() for text in texts(given))


# -- messages --------------------------------------------------------------------------------------


def called(message: Message) -> Iterator[str]:
    """What an expectation may call a message."""
    yield _WORDS.get(message.what, message.what)
    if message.what == "session/prompt":
        yield "prompt"
    if message.is_error:
        yield "error"
    elif message.what == _ANSWER:
        yield "stop"


def _is(message: Message, name: str) -> bool:
    return name == "*" or name in called(message)


def _text(message: Message, name: str, pointer: str | None) -> str | None:
    """The text of a message that counts; None: there is none at the pointer."""
    if message.is_text:
        return message.body.decode("utf-8", "replace")
    if pointer is None and name == "prompt":
        return edits.text_of(message.body)
    try:
        value = json_text.decode(message.body or b"null")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return message.body.decode("utf-8", "replace")
    own: dict[str, str] = {"stop": "/stopReason", "error": "/message"}
    where = pointer if pointer is not None else own.get(name)
    if where is None:
        return "\n".join(_values(value))
    found = _at(value, where)
    return None if found is _NOTHING else found if isinstance(found, str) else _json(found)


_NOTHING: Final = object()


def _at(value: Any, pointer: str) -> Any:
    for word in pointer.split("/")[1:]:
        key = word.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _NOTHING
    return value


def _values(value: Any) -> Iterator[str]:
    """The values in a JSON value, without the names of members."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _values(each)
    else:
        yield value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json_text.encode(value).decode()


def _listed(came: list[Message]) -> str:
    """What came, in words."""
    names = [list(called(message))[-1] for message in came]
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return (", ".join(names[:_MOST_SHOWN]) or "nothing") + more
