"""A playbook: what is said to a router, and every effect that must follow, in order.

    with Playbook(Router([Component("agent")])) as pb:
        pb >> ("client", {"jsonrpc": "2.0", "id": 7, "method": "initialize", ...})
        pb << ("agent", {"jsonrpc": "2.0", "id": Hole("id"), ...})
        pb >> ("agent", {"jsonrpc": "2.0", "id": Hole("id"), "result": {}})
        pb << ("client", {"jsonrpc": "2.0", "id": 7, "result": {}})

`>>` plays a frame (a JSON value, or bytes as they are), or a function of the router that gives
effects. `<<` asserts the next effect: a frame by the JSON it holds or by its bytes, a `Noted` line
of the log, or any other effect by equality. A guest's frames carry their side: `("guest", "s",
{...})`. A `Hole` stands for a value not known beforehand: it matches anything the first time it is
met and the same value afterwards.

An effect nobody asserted fails the test at the next `>>` or at the end; so does a playbook that is
not used as a context manager. `Wake` effects are set aside, and come with `wake`;
sessions of `Held` effects are in `held`.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from conductor.core import Effect, Held, LogLine, Reached, Send, Wake
from conductor.core.router import Router

Step = tuple[str, Any] | tuple[str, str, Any]
Call = Callable[[Router], Sequence[Effect]]


class Hole(NamedTuple):
    """A value to be filled in by the first frame it is matched against."""

    name: str


class Noted(NamedTuple):
    """A `LogLine` effect; `text` is a part of its text."""

    level: str
    peer: str
    text: str


class Playbook:
    """Plays one router. Every failure shows the whole play so far."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.values: dict[str, Any] = {}
        """The values that filled the holes."""
        self.wakes: list[Wake] = []
        self.held: list[str | None] = []
        self.reached: list[Reached] = []
        """Wakes that the router asked for and that have not come."""
        self.effects: list[Effect] = []
        """The effects of the last step that are not asserted yet."""
        self._log: list[str] = []
        self._over = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over = True
        if kind is None:
            self._check_done()

    def __del__(self) -> None:
        assert self._over, "use the playbook as a context manager, or its end goes unchecked"

    def __rshift__(self, step: Step | Call) -> Self:
        """Plays a frame or a call, once everything that came before has been asserted."""
        self._check_done()
        self._over = False
        if callable(step):
            self._log.append(">> call")
            self.effects = self._apart(step(self.router))
            return self
        peer, tag, value = _parts(step)
        frame = value if isinstance(value, bytes) else json.dumps(self._filled(value)).encode()
        self._log.append(f">> {peer} {(tag + frame)!r}")
        self.effects = self._apart(self.router.receive(peer, tag + frame))
        return self

    def _apart(self, effects: Iterable[Effect]) -> list[Effect]:
        """The effects to assert: without the wakes, which `wake` plays, and without the effects
        that are for an audit alone."""
        effects = list(effects)
        self.reached += [one for one in effects if isinstance(one, Reached)]
        self.wakes += [one for one in effects if isinstance(one, Wake)]
        self.held += [one.session for one in effects if isinstance(one, Held)]
        return [one for one in effects if not isinstance(one, Wake | Held | Reached)]

    def wake(self, seconds: float | None = None) -> Self:
        """Time passes: all wakes asked for so far come, or those of so many seconds."""
        due = [one for one in self.wakes if seconds in (None, one.seconds)]
        self.wakes = [one for one in self.wakes if one not in due]
        return self >> (lambda router: [e for one in due for e in router.woken(one.token)])

    def __lshift__(self, expected: Step | Effect | Noted) -> Self:
        """Asserts the next effect."""
        if not self.effects:
            self._fail(f"nothing follows, but expected {expected!r}")
        effect = self.effects.pop(0)
        self._log.append(f"<< {effect!r}")
        if isinstance(expected, Noted):
            if not (
                isinstance(effect, LogLine)
                and (effect.level, effect.peer) == (expected.level, expected.peer)
                and expected.text in effect.text
            ):
                self._fail(f"expected {expected!r}")
        elif isinstance(expected, tuple):
            self._match_frame(effect, expected)
        elif effect != expected:
            self._fail(f"expected {expected!r}")
        return self

    def _match_frame(self, effect: Effect, expected: Step) -> None:
        peer, tag, value = _parts(expected)
        if not isinstance(effect, Send) or effect.peer != peer or effect.frame[-1:] != b"\n":
            self._fail(f"expected a frame for {peer}")
            return
        if isinstance(value, bytes):
            matches = effect.frame == tag + value + b"\n"
        else:
            frame = effect.frame[len(tag) :]
            matches = effect.frame.startswith(tag) and self._matches(json.loads(frame), value)
        if not matches:
            self._fail(f"expected {tag!r} {value!r} (holes: {self.values!r})")

    def _matches(self, found: object, expected: object) -> bool:
        if isinstance(expected, Hole):
            if expected.name not in self.values:
                self.values[expected.name] = found
            return self._matches(found, self.values[expected.name])
        if isinstance(expected, dict):
            return (
                isinstance(found, dict)
                and found.keys() == expected.keys()
                and all(self._matches(found[key], value) for key, value in expected.items())
            )
        if isinstance(expected, list):
            return (
                isinstance(found, list)
                and len(found) == len(expected)
                and all(map(self._matches, found, expected))
            )
        return type(found) is type(expected) and bool(found == expected)

    def _filled(self, value: object) -> object:
        if isinstance(value, Hole):
            return self.values[value.name]
        if isinstance(value, dict):
            return {key: self._filled(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self._filled(member) for member in value]
        return value

    def _check_done(self) -> None:
        if self.effects:
            self._fail(f"not asserted: {self.effects!r}")

    def _fail(self, why: str) -> None:
        raise AssertionError("\n".join([*self._log, why]))


def _parts(step: Step) -> tuple[str, bytes, object]:
    """Peer, side byte (or nothing) and value of a step."""
    if len(step) == 3:
        return step[0], step[1].encode(), step[2]
    return step[0], b"", step[1]
